// Elementwise kernels at every length and misalignment: an element's result depends on that element alone, and nothing else is written.

#include "tests/catch.hpp"
#include "tests/kernels/spans.hpp"

using namespace gradus;
using namespace gradus::testing;
using kernels::Binary;
using kernels::Compare;
using kernels::Unary;

namespace {

constexpr index_t longest = 67, offsets = 16;

template <class T>
const kernels::ElementwiseKernels<T>& table() {
  return kernels::active<T>().elementwise;
}

// Numbers on which every function is defined somewhere: both signs, zeros, ties, and one NaN.
template <class T>
std::vector<T> inputs(index_t n, std::uint64_t seed) {
  std::vector<T> x = Numbers(seed).take<T>(n);
  for (std::size_t i = 0; i < x.size(); i += 5) x[i] = static_cast<T>(static_cast<int>(i % 7) - 3);
  if (n > 20) x[20] = std::numeric_limits<T>::quiet_NaN();
  return x;
}

// What the kernel gives for each element on its own.
template <class T>
std::vector<T> one_by_one(Unary kind, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) table<T>().unary[static_cast<std::size_t>(kind)](&x[i], &y[i], 1);
  return y;
}

template <class T>
bool all_same(T* got, const std::vector<T>& wanted, index_t n) {
  for (index_t i = 0; i < n; ++i)
    if (!same(got[i], wanted[static_cast<std::size_t>(i)])) return false;
  return true;
}

template <class T>
void check_unary() {
  const std::vector<T> x = inputs<T>(longest, 1);
  for (std::size_t kind = 0; kind < static_cast<std::size_t>(Unary::count); ++kind) {
    INFO(kernels::name_of(static_cast<Unary>(kind)));
    const auto kernel = table<T>().unary[kind];
    const std::vector<T> wanted = one_by_one(static_cast<Unary>(kind), x);
    bool right = true;
    for (index_t n = 0; n <= longest; ++n)
      for (index_t offset = 0; offset < offsets; ++offset) {
        Guarded<T> from(std::vector<T>(x.begin(), x.begin() + n), offset), to(n, (offset * 5) % offsets);
        kernel(from.data(), to.data(), n);
        right = right && all_same(to.data(), wanted, n) && to.surroundings_untouched();
        kernel(from.data(), from.data(), n);  // in place
        right = right && all_same(from.data(), wanted, n) && from.surroundings_untouched();
      }
    CHECK(right);
  }
}

template <class T>
T binary_value(Binary kind, T a, T b) {
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  const bool has_nan = std::isnan(a) || std::isnan(b);
  switch (kind) {
    case Binary::add: return a + b;
    case Binary::sub: return a - b;
    case Binary::mul: return a * b;
    case Binary::div: return a / b;
    case Binary::minimum: return has_nan ? nan : a < b || (a == b && std::signbit(a)) ? a : b;
    case Binary::maximum: return has_nan ? nan : a > b || (a == b && !std::signbit(a)) ? a : b;
    default: break;
  }
  T y;
  table<T>().binary[static_cast<std::size_t>(kind)](&a, 1, &b, 1, &y, 1);  // pow and the gradients have tests of their own
  return y;
}
template <class T>
bool compare_values(Compare kind, T a, T b) {
  switch (kind) {
    case Compare::equal: return a == b;
    case Compare::not_equal: return a != b;
    case Compare::less: return a < b;
    case Compare::less_equal: return a <= b;
    case Compare::greater: return a > b;
    default: return a >= b;
  }
}

// Calls check(n, offset, a_step, b_step) for every length, misalignments and steps.
template <class F>
void for_layouts(F&& check) {
  for (index_t n = 0; n <= longest; ++n)
    for (index_t offset = 0; offset < offsets; offset += n % 3 + 1)
      for (index_t steps = 0; steps < 4; ++steps) check(n, offset, steps & 1, steps >> 1);
}

template <class T>
void check_binary() {
  const std::vector<T> a = inputs<T>(longest, 2), b = inputs<T>(longest, 3);
  for (std::size_t kind = 0; kind < static_cast<std::size_t>(Binary::count); ++kind) {
    INFO(kernels::name_of(static_cast<Binary>(kind)));
    bool right = true;
    for_layouts([&](index_t n, index_t offset, index_t a_step, index_t b_step) {
      Guarded<T> left(a, offset), to(n, (offset * 3) % offsets);
      table<T>().binary[kind](left.data(), a_step, b.data(), b_step, to.data(), n);
      for (index_t i = 0; i < n; ++i)
        right = right && same(to[i], binary_value(static_cast<Binary>(kind), left[i * a_step], b[static_cast<std::size_t>(i * b_step)]));
      right = right && to.surroundings_untouched();
    });
    CHECK(right);
  }
}

template <class T>
void check_compare_and_select() {
  const std::vector<T> a = inputs<T>(longest, 4), b = inputs<T>(longest, 5);
  std::vector<std::uint8_t> c(longest);
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<std::uint8_t>((i * i) % 3 == 1);
  bool right = true;
  for_layouts([&](index_t n, index_t offset, index_t a_step, index_t b_step) {
    Guarded<T> left(a, offset), chosen(n, offset);
    for (std::size_t kind = 0; kind < static_cast<std::size_t>(Compare::count); ++kind) {
      Guarded<std::uint8_t> to(n, offset);
      table<T>().compare[kind](left.data(), a_step, b.data(), b_step, to.data(), n);
      for (index_t i = 0; i < n; ++i)
        right =
            right && to[i] == static_cast<std::uint8_t>(compare_values(static_cast<Compare>(kind), left[i * a_step], b[static_cast<std::size_t>(i * b_step)]));
      right = right && to.surroundings_untouched();
    }
    for (const index_t c_step : {0, 1}) {
      table<T>().select(c.data() + 1, c_step, left.data(), a_step, b.data(), b_step, chosen.data(), n > 0 ? n - 1 : 0);
      for (index_t i = 0; i + 1 < n; ++i) {
        const bool first = c[static_cast<std::size_t>(1 + i * c_step)] != 0;
        right = right && same(chosen[i], first ? left[i * a_step] : b[static_cast<std::size_t>(i * b_step)]);
      }
      right = right && chosen.surroundings_untouched();
    }
  });
  CHECK(right);
}

template <class T>
void check_fill_and_scale_add() {
  const std::vector<T> x = Numbers(6).take<T>(longest), start = Numbers(7).take<T>(longest);
  const T alpha = static_cast<T>(1.7);
  bool right = true;
  for (index_t n = 0; n <= longest; ++n)
    for (index_t offset = 0; offset < offsets; ++offset) {
      Guarded<T> y(std::vector<T>(start.begin(), start.begin() + n), offset), filled(n, offset);
      table<T>().scale_add(alpha, x.data(), y.data(), n);
      table<T>().fill(alpha, filled.data(), n);
      for (index_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i);
        right = right && same(y[i], chain_step(alpha, x[at], start[at])) && same(filled[i], alpha);
      }
      right = right && y.surroundings_untouched() && filled.surroundings_untouched();
    }
  CHECK(right);
}

// The bits of all functions of one type on the active instruction set, NaNs made alike.
template <class T>
std::vector<T> all_results() {
  std::vector<T> all;
  const std::vector<T> a = Numbers(10).take<T>(5000), b = Numbers(11).take<T>(5000);
  std::vector<T> x = a;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(std::ldexp(a[i], static_cast<int>(i % 60) - 30));
  const auto take = [&](const std::vector<T>& y) {
    for (const T v : y) all.push_back(std::isnan(v) ? T{0} : v);
  };
  std::vector<T> y(x.size());
  for (const auto kernel : table<T>().unary) {
    kernel(x.data(), y.data(), static_cast<index_t>(x.size()));
    take(y);
  }
  for (const auto kernel : table<T>().binary) {
    kernel(x.data(), 1, b.data(), 1, y.data(), static_cast<index_t>(x.size()));
    take(y);
  }
  return all;
}

template <class T>
void check_equal_bits() {
  std::vector<T> wide, narrow;
  {
    const UseIsa use(kernels::Isa::avx512);
    wide = all_results<T>();
  }
  {
    const UseIsa use(kernels::Isa::avx2);
    narrow = all_results<T>();
  }
  CHECK(std::memcmp(wide.data(), narrow.data(), wide.size() * sizeof(T)) == 0);
}

}  // namespace

TEMPLATE_TEST_CASE("unary_kernels_work_at_every_length_and_misalignment", "", float, double) { on_every_isa(check_unary<TestType>); }
TEMPLATE_TEST_CASE("binary_kernels_work_at_every_length_misalignment_and_step", "", float, double) { on_every_isa(check_binary<TestType>); }
TEMPLATE_TEST_CASE("compare_and_select_work_at_every_length_misalignment_and_step", "", float, double) { on_every_isa(check_compare_and_select<TestType>); }
TEMPLATE_TEST_CASE("fill_and_scale_add_work_at_every_length_and_misalignment", "", float, double) { on_every_isa(check_fill_and_scale_add<TestType>); }

TEMPLATE_TEST_CASE("nan_propagates_at_every_index", "", float, double) {
  on_every_isa([] {
    constexpr TestType nan = std::numeric_limits<TestType>::quiet_NaN();
    bool right = true;
    for (index_t n = 1; n <= longest; ++n)
      for (index_t at = 0; at < n; ++at) {
        std::vector<TestType> x(static_cast<std::size_t>(n), TestType{1}), other = x, y = x;
        x[static_cast<std::size_t>(at)] = nan;
        table<TestType>().unary[static_cast<std::size_t>(Unary::relu)](x.data(), y.data(), n);
        for (index_t i = 0; i < n; ++i) right = right && std::isnan(y[static_cast<std::size_t>(i)]) == (i == at);
        for (const auto kind : {Binary::maximum, Binary::minimum})
          for (const bool swapped : {false, true}) {
            table<TestType>().binary[static_cast<std::size_t>(kind)](swapped ? other.data() : x.data(), 1, swapped ? x.data() : other.data(), 1, y.data(), n);
            for (index_t i = 0; i < n; ++i) right = right && std::isnan(y[static_cast<std::size_t>(i)]) == (i == at);
          }
      }
    CHECK(right);
  });
}

TEST_CASE("elementwise_results_have_the_same_bits_on_avx2_and_avx512") {
  if (!kernels::available(kernels::Isa::avx512)) {
    WARN("skipped: this machine has no AVX-512");
    return;
  }
  check_equal_bits<float>();
  check_equal_bits<double>();
}

TEST_CASE("kernels_have_names") {
  CHECK(std::string(kernels::name_of(Unary::rectified_quadratic)) == "rectified_quadratic");
  CHECK(std::string(kernels::name_of(Binary::maximum)) == "maximum");
  CHECK(std::string(kernels::name_of(Compare::not_equal)) == "not_equal");
}
