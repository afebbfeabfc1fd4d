#include "engine/io/safetensors.hpp"

#include <bit>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/error.hpp"
#include "engine/io/bytes.hpp"
#include "engine/io/file.hpp"
#include "engine/io/safetensors_header.hpp"
#include "engine/tensor/view.hpp"

namespace gradus::io {
namespace {

static_assert(std::endian::native == std::endian::little, "data are copied as they are, and the format is little-endian");

constexpr std::size_t length_field = 8, header_limit = 100'000'000;

/// Bytes to be read, in a file or in memory.
struct Source {
  const std::string& where;
  std::size_t size;
  std::function<void(std::size_t offset, std::span<std::byte> to)> read;

  [[nodiscard]] std::string text(std::size_t offset, std::size_t count) const {
    std::string bytes(count, '\0');
    read(offset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
};

Tensor read_tensor(const Source& source, std::size_t data, const SafeTensorsEntry& entry) {
  const DType dtype = entry.element.dtype();
  Tensor tensor = Tensor::empty(entry.shape, dtype);
  if (entry.begin == entry.end) return tensor;
  auto* to = visit_dtype(dtype, [&](auto tag) { return reinterpret_cast<std::byte*>(tensor.mutable_data<decltype(tag)>()); });
  const std::size_t stored = entry.end - entry.begin;
  if (dtype != DType::boolean && static_cast<index_t>(entry.element.size) == size_of(dtype)) source.read(data + entry.begin, {to, stored});
  else convert_elements(source.text(data + entry.begin, stored), entry.element, to, cat(source.where, ": ", entry.name));
  return tensor;
}

SafeTensors load(const Source& source) {
  const auto fail = [&](const std::string& what) { throw IoError(source.where, "is not a valid safetensors file: " + what); };
  if (source.size < length_field) fail(cat("it has ", source.size, " bytes, less than its length field"));
  const auto length = get_little<std::uint64_t>(source.text(0, length_field), 0);
  if (length > header_limit) fail(cat("its header claims ", length, " bytes, more than 100 MB"));
  if (length > source.size - length_field) fail(cat("its header claims ", length, " bytes, more than the file has"));
  const std::size_t data = length_field + length;
  SafeTensorsHeader header = parse_safetensors_header(source.text(length_field, length), source.size - data, source.where);
  SafeTensors result;
  result.metadata = std::move(header.metadata);
  for (SafeTensorsEntry& entry : header.entries) {
    Tensor tensor = read_tensor(source, data, entry);
    result.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return result;
}

const char* type_name(DType dtype) { return dtype == DType::f32 ? "F32" : dtype == DType::f64 ? "F64" : dtype == DType::i64 ? "I64" : "BOOL"; }

/// Tensors of large elements come first, so that every one lies at a multiple of its element's size.
constexpr std::size_t element_sizes[] = {8, 4, 1};

std::string format_header(const std::vector<std::pair<std::string, Tensor>>& tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<index_t> begins(tensors.size());
  index_t at = 0;
  for (const std::size_t size : element_sizes)
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& tensor = tensors[i].second;
      if (static_cast<std::size_t>(size_of(tensor.dtype())) != size) continue;
      begins[i] = at;
      at += byte_size(tensor.shape(), tensor.dtype());
    }
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(metadata_key)] = metadata;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    const index_t end = begins[i] + byte_size(tensor.shape(), tensor.dtype());
    nlohmann::ordered_json& entry = header[name];
    entry["dtype"] = type_name(tensor.dtype());
    entry["shape"] = std::vector<index_t>(tensor.shape().begin(), tensor.shape().end());
    entry["data_offsets"] = {begins[i], end};
  }
  try {
    std::string text = header.dump();
    text.append((length_field - text.size() % length_field) % length_field, ' ');
    return text;
  } catch (const nlohmann::json::exception&) {
    throw ValueError("write_safetensors", "a name or a metadata text is not valid UTF-8");
  }
}

}  // namespace

SafeTensors read_safetensors(const std::string& path) {
  const InputFile file(path);
  return load({path, file.size(), [&](std::size_t offset, std::span<std::byte> to) { file.read(offset, to); }});
}

SafeTensors parse_safetensors(std::string_view bytes, const std::string& where) {
  return load({where, bytes.size(), [&](std::size_t offset, std::span<std::byte> to) { std::memcpy(to.data(), bytes.data() + offset, to.size()); }});
}

void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors, const std::map<std::string, std::string>& metadata,
                       bool force) {
  std::set<std::string_view> names{metadata_key};
  for (const auto& [name, tensor] : tensors) {
    if (!names.insert(name).second) throw ValueError("write_safetensors", cat("the name ", excerpt(name), " is taken"), "names must be unique");
    if (!tensor.defined()) throw ValueError("write_safetensors", cat(excerpt(name), " is no tensor"));
  }
  const std::string header = format_header(tensors, metadata);
  if (header.size() > header_limit) throw ValueError("write_safetensors", cat("the header takes ", header.size(), " bytes, more than 100 MB"));
  OutputFile file(path, force);
  std::string length;
  put_little(length, std::uint64_t{header.size()});
  file.write(length);
  file.write(header);
  for (const std::size_t size : element_sizes)
    for (const auto& [name, tensor] : tensors) {
      if (static_cast<std::size_t>(size_of(tensor.dtype())) != size) continue;
      const Tensor whole = contiguous(tensor);
      file.write({reinterpret_cast<const char*>(whole.raw()), static_cast<std::size_t>(byte_size(whole.shape(), whole.dtype()))});
    }
  file.commit();
}

}  // namespace gradus::io
