// Chooses the instruction set. The only kernel file that is compiled once, for any CPU of the target.
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "engine/kernels/kernels.hpp"

// The tables that the families define, once per instruction set.
#define GRADUS_DECLARE_FAMILY(Family, name)       \
  extern const Family##Kernels<float> name##_f32; \
  extern const Family##Kernels<double> name##_f64;
#define GRADUS_DECLARE_TABLES(isa)                \
  namespace gradus::kernels::isa {                \
  GRADUS_DECLARE_FAMILY(Elementwise, elementwise) \
  GRADUS_DECLARE_FAMILY(Reduce, reduce)           \
  GRADUS_DECLARE_FAMILY(Softmax, softmax)         \
  GRADUS_DECLARE_FAMILY(Gemm, gemm)               \
  GRADUS_DECLARE_FAMILY(Distance, distance)       \
  GRADUS_DECLARE_FAMILY(Update, update)           \
  GRADUS_DECLARE_FAMILY(Attention, attention)     \
  GRADUS_DECLARE_FAMILY(Transpose, transpose)     \
  GRADUS_DECLARE_FAMILY(RowNorm, row_norm)        \
  GRADUS_DECLARE_FAMILY(Sign, signs)              \
  }
#define GRADUS_TABLE_OF(isa, type)                                                                                                                       \
  {                                                                                                                                                      \
    isa::elementwise_##type, isa::reduce_##type, isa::softmax_##type, isa::gemm_##type, isa::distance_##type, isa::update_##type, isa::attention_##type, \
        isa::transpose_##type, isa::row_norm_##type, isa::signs_##type                                                                                   \
  }

GRADUS_DECLARE_TABLES(baseline)
#ifdef GRADUS_HAVE_AVX2
GRADUS_DECLARE_TABLES(avx2)
#endif
#ifdef GRADUS_HAVE_AVX512
GRADUS_DECLARE_TABLES(avx512)
#endif
#ifdef GRADUS_HAVE_NEON
GRADUS_DECLARE_TABLES(neon)
#endif

namespace gradus::kernels {
namespace {

/// The kernels of one instruction set.
struct Tables {
  Isa isa;
  Kernels<float> f32;
  Kernels<double> f64;
};

// Built on first use, so that other static objects may use kernels before main.
template <Isa isa>
const Tables& tables_of();

#define GRADUS_DEFINE_TABLES(name)                                                                 \
  template <>                                                                                      \
  const Tables& tables_of<Isa::name>() {                                                           \
    static const Tables tables{Isa::name, GRADUS_TABLE_OF(name, f32), GRADUS_TABLE_OF(name, f64)}; \
    return tables;                                                                                 \
  }
GRADUS_DEFINE_TABLES(baseline)
#ifdef GRADUS_HAVE_AVX2
GRADUS_DEFINE_TABLES(avx2)
#endif
#ifdef GRADUS_HAVE_AVX512
GRADUS_DEFINE_TABLES(avx512)
#endif
#ifdef GRADUS_HAVE_NEON
GRADUS_DEFINE_TABLES(neon)
#endif

constexpr Isa best_first[] = {Isa::avx512, Isa::avx2, Isa::neon, Isa::baseline};

// Null when this build has no such kernels or this machine cannot run them. The compiler's checks ask the operating system too.
const Tables* find(Isa isa) {
  switch (isa) {
    case Isa::baseline: return &tables_of<Isa::baseline>();
    case Isa::avx2:
#ifdef GRADUS_HAVE_AVX2
      if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &tables_of<Isa::avx2>();
#endif
      return nullptr;
    case Isa::avx512:
#ifdef GRADUS_HAVE_AVX512
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
          __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma"))
        return &tables_of<Isa::avx512>();
#endif
      return nullptr;
    case Isa::neon:
#ifdef GRADUS_HAVE_NEON
      return &tables_of<Isa::neon>();
#else
      return nullptr;
#endif
  }
  return nullptr;
}

std::string available_names() {
  std::string names;
  for (const Isa isa : best_first)
    if (available(isa)) names += names.empty() ? name_of(isa) : cat(", ", name_of(isa));
  return names;
}

const Tables& require(Isa isa) {
  const Tables* tables = find(isa);
  if (tables == nullptr) throw ValueError("kernels", cat(name_of(isa), " is not available here"), cat("use one of: ", available_names()));
  return *tables;
}

const Tables& from_environment() {
  const char* wanted = std::getenv("GRADUS_ISA");
  for (const Isa isa : best_first) {
    if (wanted == nullptr || *wanted == '\0') {
      if (const Tables* tables = find(isa)) return *tables;
    } else if (std::string_view(wanted) == name_of(isa)) {
      return require(isa);
    }
  }
  throw ValueError("kernels", cat("GRADUS_ISA is \"", wanted, "\""), cat("use one of: ", available_names()));
}

std::atomic<const Tables*> chosen{nullptr};

// Two threads that come first together choose the same tables. On the CPUs we run on an acquiring load costs what any load costs.
const Tables& active_tables() {
  if (const Tables* tables = chosen.load(std::memory_order_acquire)) return *tables;
  const Tables& tables = from_environment();
  chosen.store(&tables, std::memory_order_release);
  return tables;
}

}  // namespace

const char* name_of(Isa isa) noexcept {
  switch (isa) {
    case Isa::baseline: return "baseline";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::neon: return "neon";
  }
  return "?";
}

bool available(Isa isa) noexcept { return find(isa) != nullptr; }
Isa active_isa() { return active_tables().isa; }
void select_isa(Isa isa) { chosen.store(&require(isa), std::memory_order_release); }

template <>
const Kernels<float>& active<float>() {
  return active_tables().f32;
}
template <>
const Kernels<double>& active<double>() {
  return active_tables().f64;
}

}  // namespace gradus::kernels
