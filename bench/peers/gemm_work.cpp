// Matrix products by one of Eigen, OpenBLAS and oneDNN, on request: the protocol of torch_work.py, for the kind
// "gemm f32|f64 M N K A-TRANSPOSED B-TRANSPOSED BATCH" alone.
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench/runner/timing.hpp"

#if defined(GRADUS_PEER_EIGEN)
#include <Eigen/Dense>
#elif defined(GRADUS_PEER_OPENBLAS)
#include <cblas.h>
#else
#include <oneapi/dnnl/dnnl.hpp>
#endif

using namespace gradus::bench;

namespace {

struct Product {
  long m, n, k, a_transposed, b_transposed, batch;
};

template <class T>
struct Operands {
  explicit Operands(const Product& p)
      : a(static_cast<std::size_t>(p.batch * p.m * p.k)), b(static_cast<std::size_t>(p.batch * p.k * p.n)), c(static_cast<std::size_t>(p.batch * p.m * p.n)) {
    unsigned state = 1;
    for (auto* v : {&a, &b})
      for (T& x : *v) x = static_cast<T>((state = state * 1664525u + 1013904223u) >> 8) / static_cast<T>(1 << 23) - 1;
  }
  std::vector<T> a, b, c;
};

#if defined(GRADUS_PEER_EIGEN)
const char* const version = "Eigen";
template <class T>
Work make(const Product& p) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto o = std::make_shared<Operands<T>>(p);
  return [o, p] {
    for (long i = 0; i < p.batch; ++i) {
      const Eigen::Map<const Matrix> a(o->a.data() + i * p.m * p.k, p.a_transposed ? p.k : p.m, p.a_transposed ? p.m : p.k);
      const Eigen::Map<const Matrix> b(o->b.data() + i * p.k * p.n, p.b_transposed ? p.n : p.k, p.b_transposed ? p.k : p.n);
      Eigen::Map<Matrix> c(o->c.data() + i * p.m * p.n, p.m, p.n);
      if (p.a_transposed && p.b_transposed) c.noalias() = a.transpose() * b.transpose();
      else if (p.a_transposed) c.noalias() = a.transpose() * b;
      else if (p.b_transposed) c.noalias() = a * b.transpose();
      else c.noalias() = a * b;
    }
  };
}
#elif defined(GRADUS_PEER_OPENBLAS)
const char* const version = "OpenBLAS";
void multiply(const Product& p, const float* a, const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, p.a_transposed ? CblasTrans : CblasNoTrans, p.b_transposed ? CblasTrans : CblasNoTrans, static_cast<int>(p.m),
              static_cast<int>(p.n), static_cast<int>(p.k), 1, a, static_cast<int>(p.a_transposed ? p.m : p.k), b, static_cast<int>(p.b_transposed ? p.k : p.n),
              0, c, static_cast<int>(p.n));
}
void multiply(const Product& p, const double* a, const double* b, double* c) {
  cblas_dgemm(CblasRowMajor, p.a_transposed ? CblasTrans : CblasNoTrans, p.b_transposed ? CblasTrans : CblasNoTrans, static_cast<int>(p.m),
              static_cast<int>(p.n), static_cast<int>(p.k), 1, a, static_cast<int>(p.a_transposed ? p.m : p.k), b, static_cast<int>(p.b_transposed ? p.k : p.n),
              0, c, static_cast<int>(p.n));
}
template <class T>
Work make(const Product& p) {
  const auto o = std::make_shared<Operands<T>>(p);
  return [o, p] {
    for (long i = 0; i < p.batch; ++i) multiply(p, o->a.data() + i * p.m * p.k, o->b.data() + i * p.k * p.n, o->c.data() + i * p.m * p.n);
  };
}
#else
const char* const version = "oneDNN";
template <class T>
Work make(const Product& p) {
  if (sizeof(T) == 8) throw std::runtime_error("oneDNN multiplies no f64");
  using namespace dnnl;
  const auto o = std::make_shared<Operands<T>>(p);
  const engine cpu(engine::kind::cpu, 0);
  const auto type = memory::data_type::f32;
  const memory::desc a({p.batch, p.m, p.k}, type, memory::dims{p.m * p.k, p.a_transposed ? 1 : p.k, p.a_transposed ? p.m : 1});
  const memory::desc b({p.batch, p.k, p.n}, type, memory::dims{p.k * p.n, p.b_transposed ? 1 : p.n, p.b_transposed ? p.k : 1});
  const memory::desc c({p.batch, p.m, p.n}, type, memory::dims{p.m * p.n, p.n, 1});
#if DNNL_VERSION_MAJOR >= 3
  const matmul product(matmul::primitive_desc(cpu, a, b, c));
#else
  const matmul product(matmul::primitive_desc(matmul::desc(a, b, c), cpu));
#endif
  const memory in_a(a, cpu, o->a.data()), in_b(b, cpu, o->b.data()), out(c, cpu, o->c.data());
  stream s(cpu);
  return [=, operands = o, of = cpu]() mutable {  // what the memories refer to must outlive them
    product.execute(s, {{DNNL_ARG_SRC, in_a}, {DNNL_ARG_WEIGHTS, in_b}, {DNNL_ARG_DST, out}});
    s.wait();
  };
}
#endif

void answer(const std::string& request) {
  static std::string current;
  static Work work;
  std::istringstream in(request);
  std::string what, way, kind, dtype;
  double seconds = 0;
  in >> what;
  if (what == "version") {
    std::cout << version << std::endl;
  } else if (what == "variants") {
    in >> kind;
    std::cout << (kind == "gemm" ? "default" : "") << std::endl;
  } else if (what == "time") {
    Product p{};
    in >> seconds >> way >> kind >> dtype >> p.m >> p.n >> p.k >> p.a_transposed >> p.b_transposed >> p.batch;
    if (!in || kind != "gemm") throw std::runtime_error("not done here");
    const std::string name = request.substr(request.find("gemm"));
    if (name != current) {
      work = nullptr;
      work = dtype == "f32" ? make<float>(p) : make<double>(p);
      work();
      current = name;
    }
    std::cout << time_of(work, seconds) << std::endl;
  } else {
    throw std::runtime_error("not done here");
  }
}

}  // namespace

int main() { answer_requests(answer); }
