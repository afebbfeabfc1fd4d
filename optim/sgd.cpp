// Stochastic gradient descent with momentum, Nesterov's momentum and weight decay.
#include "engine/kernels/kernels.hpp"
#include "engine/tensor/view.hpp"
#include "optim/optimizer.hpp"

namespace gradus {
namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& o) : Optimizer(o.learning_rate), momentum_(o.momentum), nesterov_(o.nesterov ? 1 : 0), weight_decay_(o.weight_decay) {
    if (!(momentum_ >= 0 && momentum_ < 1)) throw ValueError("sgd", cat("the momentum is ", momentum_), "it must be in [0, 1)");
    if (!(weight_decay_ >= 0)) throw ValueError("sgd", cat("the weight decay is ", weight_decay_), "it must be >= 0");
    if (o.nesterov && momentum_ == 0) throw ValueError("sgd", "Nesterov's momentum with a momentum of 0", "give a momentum");
  }
  [[nodiscard]] const char* name() const noexcept override { return "sgd"; }

 protected:
  void update(ParameterSet& parameters, int i, const Tensor& gradient) override {
    Tensor value = parameters[i].value;
    const Tensor g = contiguous(gradient);
    visit_floating(value.dtype(), "sgd", [&](auto tag) {
      using T = decltype(tag);
      T* buffer = momentum_ > 0 ? parameters.state(i, "sgd/momentum").mutable_data<T>() : nullptr;
      const kernels::SgdStep<T> step{static_cast<T>(learning_rate()), static_cast<T>(momentum_), static_cast<T>(weight_decay_), nesterov_ != 0, steps() == 1};
      kernels::active<T>().update.sgd(step, g.data<T>(), buffer, value.mutable_data<T>(), value.numel());
    });
  }
  [[nodiscard]] std::vector<std::pair<std::string, double*>> settings() override {
    return {{"momentum", &momentum_}, {"nesterov", &nesterov_}, {"weight_decay", &weight_decay_}};
  }

 private:
  double momentum_, nesterov_, weight_decay_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const SgdOptions& options) { return std::make_unique<Sgd>(options); }

}  // namespace gradus
