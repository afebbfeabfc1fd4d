#include "engine/tensor/view.hpp"

#include <cstring>

#include "engine/core/parallel.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/tensor/strided.hpp"

namespace gradus {
namespace {

constexpr index_t copy_grain = 1 << 15;  // elements; smaller copies are not worth waking a worker

template <class T>
void copy_run(T* to, index_t to_step, const T* from, index_t from_step, index_t n) {
  constexpr index_t worth_a_call = 16;
  if (to_step == 1 && from_step == 1 && n > worth_a_call) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  for (index_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
}

// The axis along which the source is contiguous, when the target is so along another: a transposition. -1 when it is none.
int transposed_axis(const StridedLoop<2>& loop) {
  constexpr index_t worthwhile = 4;
  if (loop.step(0) != 1 || loop.step(1) == 1 || loop.run() < worthwhile) return -1;
  for (int axis = 0; axis + 1 < loop.shape().rank(); ++axis)
    if (loop.strides(1)[axis] == 1 && loop.shape()[axis] >= worthwhile) return axis;
  return -1;
}

// The two axes by kernel, in strips; the others one after the other.
template <class T>
void copy_transposed(T* to, const T* from, const StridedLoop<2>& loop, int axis) {
  constexpr index_t strip = 64;
  const auto kernel = kernels::active<T>().transpose.transpose;
  Shape rest = loop.shape();
  rest[axis] = rest[rest.rank() - 1] = 1;
  const StridedLoop<2> outer(rest, {loop.strides(0), loop.strides(1)});
  const index_t columns = loop.shape()[axis], strips = (columns + strip - 1) / strip, outer_count = numel(rest);
  const index_t grain = std::max<index_t>(1, copy_grain / (strip * loop.run()));
  parallel_for(outer_count * strips, grain, [&](index_t begin, index_t end) {
    for (index_t task = begin; task < end; ++task) {
      const index_t o = task / strips, first = task % strips * strip;
      auto at = outer.start(o / outer.run());
      for (std::size_t i = 0; i < 2; ++i) at[i] += o % outer.run() * outer.step(i);
      kernel(from + at[1] + first, loop.step(1), loop.run(), std::min(strip, columns - first), to + at[0] + first * loop.strides(0)[axis],
             loop.strides(0)[axis]);
    }
  });
}

template <class T>
void copy_elements(Tensor& target, const Tensor& source) {
  const StridedLoop<2> loop(target.shape(), {target.strides(), source.strides()});
  T* to = target.mutable_data<T>();
  const T* from = source.data<T>();
  const index_t runs = loop.runs(), run = loop.run();
  if constexpr (sizeof(T) >= sizeof(float)) {
    using Moved = std::conditional_t<sizeof(T) == sizeof(float), float, double>;
    if (const int axis = transposed_axis(loop); axis >= 0) {
      copy_transposed(reinterpret_cast<Moved*>(to), reinterpret_cast<const Moved*>(from), loop, axis);
      return;
    }
  }
  if (runs == 1) {
    parallel_for(run, copy_grain, [&](index_t begin, index_t end) {
      copy_run(to + begin * loop.step(0), loop.step(0), from + begin * loop.step(1), loop.step(1), end - begin);
    });
    return;
  }
  const index_t grain = run >= copy_grain ? 1 : copy_grain / std::max<index_t>(run, 1);
  parallel_for(runs, grain, [&](index_t begin, index_t end) {
    loop.each_run(begin, end, [&](const auto& at) { copy_run(to + at[0], loop.step(0), from + at[1], loop.step(1), run); });
  });
}

}  // namespace

Tensor copy(const Tensor& t) {
  Tensor result = Tensor::empty(t.shape(), t.dtype());
  copy_into(result, t);
  return result;
}

Tensor contiguous(const Tensor& t) { return t.is_contiguous() ? t : copy(t); }

void copy_into(Tensor& target, const Tensor& source) {
  if (target.dtype() != source.dtype()) throw DTypeError("copy_into", cat(name_of(source.dtype()), " into ", name_of(target.dtype())), "cast first");
  const Tensor from = view::expand(source, target.shape());
  if (target.numel() == 0) return;
  visit_dtype(target.dtype(), [&](auto tag) { copy_elements<decltype(tag)>(target, from); });
}

namespace view {

Tensor permute(const Tensor& t, const Dims& axes) {
  if (axes.rank() != t.rank()) throw ShapeError("permute", cat("axes ", axes, " do not name each axis of ", t.shape()), "name each axis once");
  (void)normalize_axes(axes, t.rank(), "permute");  // repeated or unknown axes
  Shape shape;
  Strides strides;
  for (index_t axis : axes) {
    const int a = normalize_axis(axis, t.rank(), "permute");
    shape.push_back(t.shape()[a]);
    strides.push_back(t.strides()[a]);
  }
  return Tensor::view_of(t.buffer(), shape, strides, t.offset(), t.dtype());
}

Tensor transpose(const Tensor& t, index_t a, index_t b) {
  const int x = normalize_axis(a, t.rank(), "transpose"), y = normalize_axis(b, t.rank(), "transpose");
  Shape shape = t.shape();
  Strides strides = t.strides();
  std::swap(shape[x], shape[y]);
  std::swap(strides[x], strides[y]);
  return Tensor::view_of(t.buffer(), shape, strides, t.offset(), t.dtype());
}

Tensor expand(const Tensor& t, const Shape& shape) {
  const int extra = shape.rank() - t.rank();
  if (extra < 0) throw ShapeError("expand", cat(t.shape(), " has more axes than ", shape), "reduce or reshape it");
  Shape result = shape;
  Strides strides = Dims::filled(shape.rank(), 0);
  for (int i = 0; i < t.rank(); ++i) {
    index_t& wanted = result[i + extra];
    if (wanted == -1) wanted = t.shape()[i];
    if (t.shape()[i] != wanted && t.shape()[i] != 1) throw ShapeError("expand", cat(t.shape(), " does not expand to ", shape), "only axes of size 1 stretch");
    strides[i + extra] = t.shape()[i] == wanted ? t.strides()[i] : 0;
  }
  (void)gradus::numel(result);  // an overflow or a -1 on a new axis is an error here
  return Tensor::view_of(t.buffer(), result, strides, t.offset(), t.dtype());
}

Shape resolve_reshape(const Shape& from, const Shape& to) {
  Shape result = to;
  int unknown = -1;
  index_t known = 1;
  for (int i = 0; i < to.rank(); ++i) {
    if (to[i] == -1 && unknown < 0) unknown = i;
    else if (to[i] < 0) throw ShapeError("reshape", cat("sizes ", to), "at most one -1, the others 0 or more");
    else known = checked_mul(known, to[i], to);
  }
  const index_t count = numel(from);
  if (unknown >= 0) {
    if (known == 0 || count % known != 0) throw ShapeError("reshape", cat(from, " (", count, " elements) does not reshape to ", to), "");
    result[unknown] = count / known;
  }
  if (numel(result) != count)
    throw ShapeError("reshape", cat(from, " has ", count, " elements, ", to, " has ", numel(result)), "the numbers must agree; -1 infers one size");
  return result;
}

// Splits the old axes into groups that are contiguous within themselves; each new axis must fall inside one group.
std::optional<Tensor> try_reshape(const Tensor& t, const Shape& to) {
  const Shape shape = resolve_reshape(t.shape(), to);
  if (t.numel() == 0 || t.is_contiguous()) return Tensor::view_of(t.buffer(), shape, contiguous_strides(shape), t.offset(), t.dtype());
  Strides strides = Dims::filled(shape.rank(), 1);
  int next = shape.rank() - 1;
  index_t group = 1, filled = 1;
  index_t base = 0;
  for (int axis = t.rank() - 1; axis >= 0; --axis) {
    if (group == 1) base = t.strides()[axis];
    group *= t.shape()[axis];
    const bool ends = axis == 0 || (t.shape()[axis - 1] != 1 && t.strides()[axis - 1] != group * base);
    if (!ends) continue;
    while (next >= 0 && (filled < group || shape[next] == 1)) {
      strides[next] = filled * base;
      filled *= shape[next];
      --next;
    }
    if (filled != group) return std::nullopt;
    group = filled = 1;
  }
  return Tensor::view_of(t.buffer(), shape, strides, t.offset(), t.dtype());
}

Tensor reshape(const Tensor& t, const Shape& shape) {
  if (auto v = try_reshape(t, shape)) return *v;
  return *try_reshape(copy(t), shape);
}

Tensor unsqueeze(const Tensor& t, index_t axis) {
  const int a = normalize_axis(axis, t.rank() + 1, "unsqueeze");
  Shape shape = t.shape();
  Strides strides = t.strides();
  shape.insert(a, 1);
  strides.insert(a, 0);
  return Tensor::view_of(t.buffer(), shape, strides, t.offset(), t.dtype());
}

Tensor squeeze(const Tensor& t, index_t axis) {
  const int a = normalize_axis(axis, t.rank(), "squeeze");
  if (t.shape()[a] != 1) throw ShapeError("squeeze", cat("axis ", axis, " of ", t.shape(), " has size ", t.shape()[a]), "only axes of size 1 go");
  Shape shape = t.shape();
  Strides strides = t.strides();
  shape.erase(a);
  strides.erase(a);
  return Tensor::view_of(t.buffer(), shape, strides, t.offset(), t.dtype());
}

Range resolve_slice(const Slice& slice, index_t size) {
  if (slice.step == 0) throw ValueError("slice", "a step of 0", "steps are positive or negative");
  if (slice.step == Slice::none) throw ValueError("slice", "the step is out of range", "");
  const bool forward = slice.step > 0;
  const index_t lowest = forward ? 0 : -1, highest = forward ? size : size - 1;
  const auto place = [&](index_t at, index_t otherwise) {
    if (at == Slice::none) return otherwise;
    if (at < 0) at = at < -size ? -1 : at + size;
    return std::min(std::max(at, lowest), highest);
  };
  const index_t start = place(slice.start, forward ? 0 : size - 1), stop = place(slice.stop, forward ? size : -1);
  const index_t span = forward ? stop - start : start - stop;
  const index_t step = forward ? slice.step : -slice.step;
  return {start, span > 0 ? (span - 1) / step + 1 : 0, slice.step};
}

Tensor slice(const Tensor& t, index_t axis, const Slice& slice) {
  const int a = normalize_axis(axis, t.rank(), "slice");
  const Range range = resolve_slice(slice, t.shape()[a]);
  Shape shape = t.shape();
  Strides strides = t.strides();
  shape[a] = range.count;
  // A step beyond the axis leaves at most one element, whose stride never matters; multiplying could overflow.
  const index_t old = strides[a];
  strides[a] = range.count > 1 ? old * range.step : old;
  return Tensor::view_of(t.buffer(), shape, strides, t.offset() + (range.count ? range.start * old : 0), t.dtype());
}

Tensor select(const Tensor& t, index_t axis, index_t index) {
  const int a = normalize_axis(axis, t.rank(), "select");
  const index_t size = t.shape()[a];
  if (index < -size || index >= size)
    throw IndexError("select", cat("index ", index, " is out of range for axis ", axis, " of shape ", t.shape()),
                     cat("indices go from ", -size, " to ", size - 1));
  const index_t i = index < 0 ? index + size : index;
  return squeeze(slice(t, a, {i, i + 1, 1}), a);
}

}  // namespace view
}  // namespace gradus
