#include "tools/points.hpp"

#include <cmath>

#include "engine/io/file.hpp"
#include "engine/io/npy.hpp"

namespace gradus::tools {
namespace {

// Numbers in the wanted type; what the type cannot hold is refused. `place` says where element i is.
template <class T, class Source, class Place>
Tensor converted(const Source* source, const Shape& shape, const std::string& path, Place&& place) {
  std::vector<T> values(static_cast<std::size_t>(numel(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(source[i]);
    const auto original = static_cast<double>(source[i]);
    if (std::isfinite(static_cast<double>(values[i]))) continue;
    const std::string where = place(static_cast<index_t>(i));
    if (std::isfinite(original)) throw ValueError(path, cat(original, " ", where, " does not fit f32"), "use --dtype f64");
    throw IoError(path, cat(std::isnan(original) ? "NaN " : "infinity ", where), "remove or replace it");
  }
  return Tensor::from(values, shape);
}

template <class Source, class Place>
Tensor converted_to(DType dtype, const Source* source, const Shape& shape, const std::string& path, Place&& place) {
  return dtype == DType::f32 ? converted<float>(source, shape, path, place) : converted<double>(source, shape, path, place);
}

Points from_npy(const std::string& bytes, const std::string& path, DType dtype) {
  const io::NpyArray array = io::parse_npy(bytes, path);
  if (array.shape.rank() != 1 && array.shape.rank() != 2)
    throw ShapeError(path, cat("the array has shape ", array.shape), "points are an array (rows, columns)");
  const Shape shape = array.shape.rank() == 2 ? array.shape : Shape{array.shape[0], 1};
  if (shape[0] < 1) throw ShapeError(path, cat("the array has shape ", array.shape, ": no rows"));
  if (shape[1] < 1) throw ShapeError(path, cat("the array has shape ", array.shape, ": no columns"));
  const auto place = [&](index_t i) { return cat("in row ", i / shape[1] + 1, ", column ", i % shape[1] + 1); };
  return visit_dtype(array.dtype, [&](auto tag) {
    const auto* source = reinterpret_cast<const decltype(tag)*>(array.bytes.data());
    return Points{converted_to(dtype, source, shape, path, place), {}, 0};
  });
}

Points from_table(const std::string& text, const std::string& path, const io::TableOptions& options, DType dtype) {
  const io::Table table = io::parse_table(text, path, options);
  const auto place = [&](index_t i) { return cat("in row ", i / table.columns + 1, ", column ", i % table.columns + 1); };
  return {converted_to(dtype, table.values.data(), {table.rows, table.columns}, path, place), table.names, table.labels.empty() ? 0 : 1};
}

}  // namespace

void add_table_options(CLI::App& command, io::TableOptions& options) {
  using Header = io::TableOptions::Header;
  add_choice<Header>(command, "--header", options.header, {{"detect", Header::detect}, {"yes", Header::yes}, {"no", Header::no}},
                     "Whether the first line holds names");
  command
      .add_option("--label-column", options.label,
                  "Column of class labels, which is left out: a name, a number from 1, first, last or none (default: a text column at either end, or one "
                  "named label, class, target, species or cluster)")
      ->type_name("COLUMN");
  add_choice<char>(command, "--delimiter", options.delimiter, {{"detect", '\0'}, {"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"blank", ' '}},
                   "What stands between the columns");
}

Points read_points(const std::string& path, const io::TableOptions& options, DType dtype) {
  const std::string bytes = io::read_file(path);
  return io::is_npy(bytes) ? from_npy(bytes, path, dtype) : from_table(bytes, path, options, dtype);
}

}  // namespace gradus::tools
