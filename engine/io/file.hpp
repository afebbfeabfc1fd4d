#pragma once
// Whole files in, whole files out: reading (plain or gzip) and writing that leaves no half-written result behind.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace gradus::io {

/// The contents of a file; gzip, recognised by its first bytes, is unpacked. Throws IoError, which names the path, when it
/// is missing, unreadable, a directory or empty, and when the compressed data are cut short or damaged.
[[nodiscard]] std::string read_file(const std::string& path);

/// True when the bytes begin as a gzip file does.
[[nodiscard]] bool is_gzip(std::string_view bytes) noexcept;

/// Unpacks one or more concatenated gzip members. `where` names the source in errors. Damage is an IoError.
[[nodiscard]] std::string gunzip(std::string_view bytes, const std::string& where);

/// Text quoted for an error message: control bytes replaced, at most 40 bytes, never cut inside a UTF-8 character.
[[nodiscard]] std::string excerpt(std::string_view text);

/// A file read in pieces, as it stands (gzip is not unpacked).
class InputFile {
 public:
  /// Throws IoError when the file is missing, unreadable or no regular file.
  explicit InputFile(std::string path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Fills `to` with the bytes from `offset` on. Fewer than that is an IoError.
  void read(std::size_t offset, std::span<std::byte> to) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::size_t size_ = 0;
};

/// A result file that appears whole or not at all. Constructing it claims the place, so that an unwritable path is found
/// before hours of work; bytes go to a temporary file beside it; `commit` moves that to its name. Without `commit` the
/// temporary is removed and nothing at the path has changed. Devices and pipes (/dev/stdout) are written directly.
class OutputFile {
 public:
  /// Throws IoError when the path is a directory, its folder is missing or not writable, or it exists and `force` is false.
  explicit OutputFile(std::string path, bool force = false);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Appends. Throws IoError when the disk is full or fails.
  void write(std::string_view bytes);
  /// Flushes to the disk and gives the file its name. To be called once, after the last write.
  void commit();

 private:
  void open_temporary(unsigned mode, bool keep_mode);
  void discard() noexcept;

  std::string path_;       // as the caller named it
  std::string target_;     // with symbolic links resolved
  std::string temporary_;  // empty when written directly
  bool force_ = false;
  int descriptor_ = -1;
};

/// Writes one whole file: OutputFile, write, commit.
void write_file(const std::string& path, std::string_view bytes, bool force = false);

}  // namespace gradus::io
