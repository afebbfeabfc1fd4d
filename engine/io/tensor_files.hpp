#pragma once
// Tensors from files and into them.

#include <string>

#include "engine/io/npy.hpp"
#include "engine/io/table.hpp"
#include "engine/tensor/tensor.hpp"

namespace gradus::io {

/// An npy file (gzipped or not) as a tensor of its own dtype; see parse_npy for what is an error.
[[nodiscard]] Tensor load_npy(const std::string& path);
/// The array as a tensor.
[[nodiscard]] Tensor to_tensor(const NpyArray& array);
/// The number columns of a table as an (N, D) tensor, f64 or f32.
[[nodiscard]] Tensor to_tensor(const Table& table, DType dtype = DType::f64);
/// The bytes of the npy file of a tensor, made contiguous.
[[nodiscard]] std::string format_npy(const Tensor& tensor);
/// Writes a tensor, made contiguous, as an npy file; an existing one is replaced only with `force`.
void save_npy(const std::string& path, const Tensor& tensor, bool force = false);

}  // namespace gradus::io
