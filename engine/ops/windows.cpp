#include "engine/ops/windows.hpp"

namespace gradus {

Size2 image_of(const char* op, const char* what, const Tensor& x) {
  if (x.rank() != 4) throw ShapeError(op, cat(what, " has shape ", x.shape()), "give four axes, such as (B, C, H, W)");
  return {x.shape()[2], x.shape()[3]};
}

void check_steps(const char* op, const Size2& kernel, const Size2& stride, const Size2& padding, const Size2& dilation) {
  // Sizes of more than 2^30 would only serve to overflow the arithmetic of windows.
  constexpr index_t most = index_t{1} << 30;
  const auto check = [&](const char* what, const Size2& size, index_t least) {
    for (int axis = 0; axis < 2; ++axis)
      if (size[axis] < least || size[axis] > most) throw ValueError(op, cat(what, " is ", size[axis]), least > 0 ? "it is at least 1" : "it is at least 0");
  };
  check("a side of the kernel", kernel, 1);
  check("the stride", stride, 1);
  check("the padding", padding, 0);
  check("the dilation", dilation, 1);
}

Windows windows_over(const char* op, const Size2& image, const Size2& kernel, const Size2& stride, const Size2& padding, const Size2& dilation) {
  check_steps(op, kernel, stride, padding, dilation);
  const auto count = [&](int axis) {
    const index_t room = image[axis] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1;
    if (room < 0)
      throw ShapeError(op,
                       cat("a kernel of ", kernel[axis], " with dilation ", dilation[axis], " on an axis of ", image[axis], " with padding ", padding[axis]),
                       "the kernel must fit into the padded image");
    return room / stride[axis] + 1;
  };
  return {image, kernel, stride, padding, dilation, {count(0), count(1)}};
}

}  // namespace gradus
