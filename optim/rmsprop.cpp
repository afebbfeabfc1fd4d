// RMSProp (Tieleman and Hinton 2012), plain and centred (Graves 2013).
#include "engine/kernels/kernels.hpp"
#include "engine/tensor/view.hpp"
#include "optim/optimizer.hpp"

namespace gradus {
namespace {

class Rmsprop final : public Optimizer {
 public:
  explicit Rmsprop(const RmspropOptions& o)
      : Optimizer(o.learning_rate), alpha_(o.alpha), epsilon_(o.epsilon), weight_decay_(o.weight_decay), momentum_(o.momentum), centered_(o.centered ? 1 : 0) {
    if (!(alpha_ >= 0 && alpha_ < 1)) throw ValueError("rmsprop", cat("alpha is ", alpha_), "it must be in [0, 1)");
    if (!(epsilon_ >= 0)) throw ValueError("rmsprop", cat("epsilon is ", epsilon_), "it must be >= 0");
    if (!(weight_decay_ >= 0)) throw ValueError("rmsprop", cat("the weight decay is ", weight_decay_), "it must be >= 0");
    if (!(momentum_ >= 0 && momentum_ < 1)) throw ValueError("rmsprop", cat("the momentum is ", momentum_), "it must be in [0, 1)");
  }
  [[nodiscard]] const char* name() const noexcept override { return "rmsprop"; }

 protected:
  void update(ParameterSet& parameters, int i, const Tensor& gradient) override {
    Tensor value = parameters[i].value;
    const Tensor g = contiguous(gradient);
    // All exist before a pointer into any is taken.
    const bool centered = centered_ != 0, momentum = momentum_ > 0;
    (void)parameters.state(i, "rmsprop/square");
    if (centered) (void)parameters.state(i, "rmsprop/mean");
    if (momentum) (void)parameters.state(i, "rmsprop/momentum");
    visit_floating(value.dtype(), "rmsprop", [&](auto tag) {
      using T = decltype(tag);
      const kernels::RmspropStep<T> step{.rate = static_cast<T>(learning_rate()),
                                         .alpha = static_cast<T>(alpha_),
                                         .epsilon = static_cast<T>(epsilon_),
                                         .momentum = static_cast<T>(momentum_),
                                         .weight_decay = static_cast<T>(weight_decay_),
                                         .one_minus_alpha = static_cast<T>(1 - alpha_)};
      T* mean = centered ? parameters.state(i, "rmsprop/mean").mutable_data<T>() : nullptr;
      T* buffer = momentum ? parameters.state(i, "rmsprop/momentum").mutable_data<T>() : nullptr;
      kernels::active<T>().update.rmsprop(step, g.data<T>(), parameters.state(i, "rmsprop/square").mutable_data<T>(), mean, buffer, value.mutable_data<T>(),
                                          value.numel());
    });
  }
  [[nodiscard]] std::vector<std::pair<std::string, double*>> settings() override {
    return {{"alpha", &alpha_}, {"epsilon", &epsilon_}, {"weight_decay", &weight_decay_}, {"momentum", &momentum_}, {"centered", &centered_}};
  }

 private:
  double alpha_, epsilon_, weight_decay_, momentum_, centered_;
};

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(const RmspropOptions& options) { return std::make_unique<Rmsprop>(options); }

}  // namespace gradus
