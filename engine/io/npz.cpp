#include "engine/io/npz.hpp"

#include "engine/core/error.hpp"
#include "engine/io/file.hpp"
#include "engine/io/tensor_files.hpp"
#include "engine/io/zip.hpp"

namespace gradus::io {

namespace {
constexpr std::string_view suffix = ".npy";
}

std::map<std::string, Tensor> read_npz(const std::string& path) {
  const std::string file = read_file(path);
  std::map<std::string, Tensor> tensors;
  for (const ZipMember& member : list_zip(file, path)) {
    const std::string& name = member.name;
    if (name.size() <= suffix.size() || !name.ends_with(suffix)) throw IoError(path, cat("holds ", excerpt(name), ", which is no array NAME.npy"));
    const NpyArray array = parse_npy(unpack(member, path), cat(path, "/", name));
    tensors.emplace(name.substr(0, name.size() - suffix.size()), to_tensor(array));
  }
  return tensors;
}

void write_npz(const std::string& path, const std::map<std::string, Tensor>& tensors, bool force) {
  for (const auto& [name, tensor] : tensors)
    if (name.empty() || !tensor.defined())
      throw IoError(path, cat("cannot hold ", excerpt(name), ": ", name.empty() ? "the name is empty" : "it is no tensor"));
  OutputFile file(path, force);
  ZipWriter zip(file);
  for (const auto& [name, tensor] : tensors) zip.add(name + std::string(suffix), format_npy(tensor));
  zip.finish();
  file.commit();
}

}  // namespace gradus::io
