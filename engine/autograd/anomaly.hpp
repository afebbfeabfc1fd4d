#pragma once
// Where the first NaN or infinity came from.

#include <string>

#include "engine/autograd/observer.hpp"

namespace gradus {

/// Watches a tape for the first step that makes a NaN or an infinity out of finite numbers, forward or backward. A non-finite
/// number that was there before any step (data, a parameter) is reported as such.
class AnomalyTracer : public Observer {
 public:
  /// With `stop` the first finding is thrown as a ValueError from the op that made it; the tape is then to be cleared.
  explicit AnomalyTracer(bool stop = false) : stop_(stop) {}

  [[nodiscard]] bool found() const noexcept { return step_ >= 0; }
  [[nodiscard]] std::int32_t step() const noexcept { return step_; }
  [[nodiscard]] StepEvent::Phase phase() const noexcept { return phase_; }
  /// "sqrt in layer0/norm (step 4, forward) made NaN at element 2 of output 0 from finite inputs", or "" when all was finite.
  [[nodiscard]] const std::string& report() const noexcept { return report_; }
  /// Forgets, to watch the next pass.
  void reset();
  void on_step(const StepEvent& event) override;

 private:
  void note(const StepEvent& event, std::string what);

  bool stop_;
  std::int32_t step_ = -1;
  StepEvent::Phase phase_ = StepEvent::Phase::forward;
  std::string report_;
};

/// The value of a loss, which must be finite; otherwise a ValueError that names the first producer when `tracer` saw one.
double require_finite_loss(const Tensor& loss, const AnomalyTracer* tracer = nullptr);

}  // namespace gradus
