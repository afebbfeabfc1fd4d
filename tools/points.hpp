#pragma once
// Point sets for the commands: from text tables or npy files, checked to be finite.

#include <string>
#include <vector>

#include "engine/io/table.hpp"
#include "engine/tensor/tensor.hpp"
#include "tools/options.hpp"

namespace gradus::tools {

/// A point set as the commands use it.
struct Points {
  Tensor values;                   ///< (N, D), f32 or f64, all finite, N and D at least 1
  std::vector<std::string> names;  ///< of the columns; empty when the file has none
  index_t label_columns = 0;       ///< 1 when the file has a column of class labels, which is left out
};

/// Adds --header, --label-column and --delimiter.
void add_table_options(CLI::App& command, io::TableOptions& options);
/// Reads a csv, tsv or whitespace table or an npy array (N, D) or (N), any of them gzipped. Throws IoError, ValueError or
/// ShapeError, naming file, line and column, for what is not a set of finite points in `dtype`.
[[nodiscard]] Points read_points(const std::string& path, const io::TableOptions& options, DType dtype);

}  // namespace gradus::tools
