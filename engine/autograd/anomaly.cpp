#include "engine/autograd/anomaly.hpp"

#include <cmath>

#include "engine/tensor/view.hpp"

namespace gradus {
namespace {

// Index of the first element that is not finite, or -1; its value through `value`.
index_t first_non_finite(const Tensor& t, double& value) {
  if (!t.defined() || !is_floating(t.dtype())) return -1;
  const Tensor x = contiguous(t.detached());
  return visit_floating(x.dtype(), "anomaly", [&](auto tag) -> index_t {
    const auto* at = x.data<decltype(tag)>();
    for (index_t i = 0; i < x.numel(); ++i)
      if (!std::isfinite(at[i])) {
        value = static_cast<double>(at[i]);
        return i;
      }
    return -1;
  });
}

const char* name_of_value(double value) { return std::isnan(value) ? "NaN" : value > 0 ? "inf" : "-inf"; }

std::string named(std::span<const std::string_view> names, std::size_t i) {
  return i < names.size() && !names[i].empty() ? cat(" \"", names[i], '"') : std::string();
}

}  // namespace

void AnomalyTracer::reset() {
  step_ = -1;
  report_.clear();
}

void AnomalyTracer::note(const StepEvent& event, std::string what) {
  step_ = event.step;
  phase_ = event.phase;
  report_ = std::move(what);
  if (stop_) throw ValueError("anomaly", report_, "look at the inputs of that step");
}

void AnomalyTracer::on_step(const StepEvent& event) {
  if (found()) return;
  const bool forward = event.phase == StepEvent::Phase::forward;
  const std::string where =
      cat(event.op.name, event.scope.empty() ? std::string() : cat(" in ", event.scope), " (step ", event.step, forward ? ", forward)" : ", backward)");
  const auto made = forward ? event.outputs : event.input_gradients;
  const auto from = forward ? event.inputs : event.output_gradients;
  double value = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const index_t element = first_non_finite(*made[i], value);
    if (element < 0) continue;
    const char* bad = name_of_value(value);
    for (std::size_t j = 0; j < from.size(); ++j)
      if (const index_t at = first_non_finite(*from[j], value); at >= 0)
        return note(event,
                    cat(where, " was given ", name_of_value(value), " at element ", at, " of ",
                        forward ? cat("input ", j, named(event.input_names, j)) : std::string("the gradient that arrived"), ", before any step made it"));
    return note(event, cat(where, " made ", bad, " at element ", element, " of ", forward ? "output " : "the gradient of input ", i,
                           forward ? named(event.output_names, i) : named(event.input_names, i), forward ? " from finite inputs" : " from a finite gradient"));
  }
}

double require_finite_loss(const Tensor& loss, const AnomalyTracer* tracer) {
  const double value = loss.item();
  if (std::isfinite(value)) return value;
  throw ValueError("loss", cat("the loss is ", name_of_value(value), tracer && tracer->found() ? cat("; ", tracer->report()) : std::string()),
                   tracer ? "lower the step size, or look at that step" : "attach an AnomalyTracer to find the step that made it");
}

}  // namespace gradus
