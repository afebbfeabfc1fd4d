#include "engine/autograd/tape_state.hpp"

#include <chrono>
#include <cstring>
#include <mutex>

namespace gradus {
namespace {

// States of destroyed tapes, for the next ones. Leaked on purpose: static destruction must not outrun a late tensor.
struct Retired {
  std::mutex mutex;
  std::vector<TapeState*> states;
};
Retired& retired() {
  static auto* all = new Retired;
  return *all;
}

}  // namespace

const void* AttributeArena::copy(const void* from, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes > block_bytes) throw GraphError("tape", cat("attributes of ", bytes, " bytes"), "large data belongs in an input tensor");
  if (used_ + bytes > block_bytes) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) blocks_.push_back(Buffer::allocate(block_bytes));
  std::byte* to = blocks_[block_].data() + used_;
  std::memcpy(to, from, bytes);
  used_ = (used_ + bytes + 7) / 8 * 8;
  return to;
}

TapeState* TapeState::acquire(const TapeOptions& options) {
  TapeState* state = nullptr;
  {
    const std::lock_guard lock(retired().mutex);
    if (!retired().states.empty()) {
      state = retired().states.back();
      retired().states.pop_back();
    }
  }
  if (!state) state = new TapeState;
  state->options_ = options;
  return state;
}

void TapeState::retire() noexcept {
  clear();
  values_ = {};
  steps_ = {};
  input_ids_ = {};
  attributes_ = {};
  interned_.clear();
  texts_.assign(1, "");
  observers_.clear();
  hooks_.clear();
  noise_ = 0;
  paused_ = 0;
  const std::lock_guard lock(retired().mutex);
  retired().states.push_back(this);
}

void TapeState::clear() {
  values_.clear();
  steps_.clear();
  input_ids_.clear();
  attributes_.clear();
  checkpoints_.clear();
  scope_ = 0;
  ++epoch_;
  ++noise_;
}

std::int32_t TapeState::add_leaf(const Tensor& value, bool needs_grad, std::string_view name) {
  Value& leaf = values_.emplace_back();
  leaf.data = value;
  leaf.data.set_handle({});
  leaf.version = value.version();
  leaf.needs_grad = needs_grad;
  leaf.keep = true;
  leaf.name = name.empty() ? 0 : intern(0, name);
  return static_cast<std::int32_t>(values_.size()) - 1;
}

Tensor TapeState::handle_for(std::int32_t id) const {
  Tensor tensor = values_[static_cast<std::size_t>(id)].data;
  tensor.set_handle({const_cast<TapeState*>(this), id, epoch_});
  return tensor;
}

std::int32_t TapeState::id_of(const Tensor& tensor, const char* where) const {
  const TapeHandle& handle = tensor.handle();
  if (handle.tape == nullptr) throw GraphError(where, cat("the tensor of shape ", tensor.shape(), " is on no tape"), "make it from a variable of this tape");
  if (handle.tape != this) throw GraphError(where, cat("the tensor of shape ", tensor.shape(), " is on another tape"), "use one tape throughout");
  if (handle.epoch != epoch_)
    throw GraphError(where, cat("the tensor of shape ", tensor.shape(), " comes from before the tape was cleared"), "compute it again after clear()");
  return handle.id;
}

std::uint32_t TapeState::intern(std::uint32_t parent, std::string_view name) {
  const auto found = interned_.find(std::pair<std::uint32_t, std::string_view>(parent, name));
  if (found != interned_.end()) return found->second;
  texts_.push_back(texts_[parent].empty() ? std::string(name) : cat(texts_[parent], '/', name));
  const auto id = static_cast<std::uint32_t>(texts_.size() - 1);
  interned_.emplace(std::pair(parent, std::string(name)), id);
  return id;
}

std::string TapeState::describe(std::int32_t id) const {
  const Value& value = values_[static_cast<std::size_t>(id)];
  std::string what = cat("value ", id);
  if (value.name) what = cat('"', text(value.name), '"');
  if (value.producer >= 0) {
    const Step& step = steps_[static_cast<std::size_t>(value.producer)];
    what += cat(" (output of ", step.op->name, step.scope ? cat(" in ", text(step.scope)) : "", ")");
  }
  return what;
}

double now_seconds() noexcept { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::uint64_t step_noise(std::uint64_t counter, std::int32_t step) noexcept { return (counter << 24) ^ static_cast<std::uint64_t>(step); }

}  // namespace gradus
