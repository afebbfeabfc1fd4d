#include "engine/io/tensor_files.hpp"

#include <algorithm>
#include <cstring>

#include "engine/io/file.hpp"
#include "engine/tensor/view.hpp"

namespace gradus::io {

Tensor load_npy(const std::string& path) { return to_tensor(read_npy(path)); }

Tensor to_tensor(const NpyArray& array) {
  Tensor tensor = Tensor::empty(array.shape, array.dtype);
  if (!array.bytes.empty())
    visit_dtype(array.dtype, [&](auto tag) { std::memcpy(tensor.mutable_data<decltype(tag)>(), array.bytes.data(), array.bytes.size()); });
  return tensor;
}

Tensor to_tensor(const Table& table, DType dtype) {
  const Shape shape{table.rows, table.columns};
  return visit_floating(dtype, "table", [&](auto tag) {
    using T = decltype(tag);
    Tensor tensor = Tensor::empty(shape, dtype);
    std::transform(table.values.begin(), table.values.end(), tensor.mutable_data<T>(), [](double v) { return static_cast<T>(v); });
    return tensor;
  });
}

std::string format_npy(const Tensor& tensor) {
  const Tensor whole = contiguous(tensor);
  return format_npy(whole.shape(), whole.dtype(), std::span(whole.raw(), static_cast<std::size_t>(byte_size(whole.shape(), whole.dtype()))));
}

void save_npy(const std::string& path, const Tensor& tensor, bool force) { write_file(path, format_npy(tensor), force); }

}  // namespace gradus::io
