// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019).
#include <cmath>

#include "engine/kernels/kernels.hpp"
#include "engine/tensor/view.hpp"
#include "optim/optimizer.hpp"

namespace gradus {
namespace {

class Adam final : public Optimizer {
 public:
  Adam(const AdamOptions& o, bool decoupled)
      : Optimizer(o.learning_rate), beta1_(o.beta1), beta2_(o.beta2), epsilon_(o.epsilon), weight_decay_(o.weight_decay), decoupled_(decoupled) {
    for (const double beta : {beta1_, beta2_})
      if (!(beta >= 0 && beta < 1)) throw ValueError(name(), cat("a beta is ", beta), "betas are in [0, 1)");
    if (!(epsilon_ >= 0)) throw ValueError(name(), cat("epsilon is ", epsilon_), "it must be >= 0");
    if (!(weight_decay_ >= 0)) throw ValueError(name(), cat("the weight decay is ", weight_decay_), "it must be >= 0");
  }
  [[nodiscard]] const char* name() const noexcept override { return decoupled_ ? "adamw" : "adam"; }

 protected:
  void update(ParameterSet& parameters, int i, const Tensor& gradient) override {
    Tensor value = parameters[i].value;
    const Tensor g = contiguous(gradient);
    const auto t = static_cast<double>(steps());
    (void)parameters.state(i, "adam/m");
    (void)parameters.state(i, "adam/v");  // both exist before a reference to either is taken
    visit_floating(value.dtype(), name(), [&](auto tag) {
      using T = decltype(tag);
      const kernels::AdamStep<T> step{.rate = static_cast<T>(learning_rate()),
                                      .beta1 = static_cast<T>(beta1_),
                                      .beta2 = static_cast<T>(beta2_),
                                      .epsilon = static_cast<T>(epsilon_),
                                      .weight_decay = static_cast<T>(weight_decay_),
                                      .correction1 = static_cast<T>(1 - std::pow(beta1_, t)),
                                      .sqrt_correction2 = static_cast<T>(std::sqrt(1 - std::pow(beta2_, t))),
                                      .one_minus_beta1 = static_cast<T>(1 - beta1_),
                                      .one_minus_beta2 = static_cast<T>(1 - beta2_)};
      const auto& update = kernels::active<T>().update;
      (decoupled_ ? update.adamw : update.adam)(step, g.data<T>(), parameters.state(i, "adam/m").mutable_data<T>(),
                                                parameters.state(i, "adam/v").mutable_data<T>(), value.mutable_data<T>(), value.numel());
    });
  }
  [[nodiscard]] std::vector<std::pair<std::string, double*>> settings() override {
    return {{"beta1", &beta1_}, {"beta2", &beta2_}, {"epsilon", &epsilon_}, {"weight_decay", &weight_decay_}};
  }

 private:
  double beta1_, beta2_, epsilon_, weight_decay_;
  bool decoupled_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const AdamOptions& options) { return std::make_unique<Adam>(options, false); }
std::unique_ptr<Optimizer> make_adamw(const AdamOptions& options) { return std::make_unique<Adam>(options, true); }

}  // namespace gradus
