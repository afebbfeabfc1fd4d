#include "engine/io/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <new>
#include <system_error>
#include <utility>

#include "engine/core/error.hpp"

namespace gradus::io {
namespace {

constexpr std::size_t first_block = 1 << 16;

std::string reason(int code) { return std::generic_category().message(code); }

/// An open file descriptor that closes itself.
struct Descriptor {
  int id;
  explicit Descriptor(int descriptor) : id(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (id >= 0) ::close(id);
  }
};

int open_to_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw IoError(path, errno == ENOENT ? "no such file" : "cannot be opened: " + reason(errno));
  return descriptor;
}

/// Grows the string so that there is room after `used` bytes.
void make_room(std::string& bytes, std::size_t used, const std::string& where) {
  if (used < bytes.size()) return;
  try {
    bytes.resize(std::max(first_block, bytes.size() * 2));
  } catch (const std::exception&) {  // bad_alloc or length_error
    throw IoError(where, cat("does not fit in memory (more than ", used, " bytes)"));
  }
}

std::string read_all(int descriptor, std::size_t expected, const std::string& path) {
  std::string bytes;
  std::size_t used = 0;
  try {
    bytes.resize(expected + 1);  // one more, so that the end is seen without growing
  } catch (const std::exception&) {
    throw IoError(path, cat("does not fit in memory (", expected, " bytes)"));
  }
  for (;;) {
    make_room(bytes, used, path);
    const ssize_t got = ::read(descriptor, bytes.data() + used, bytes.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError(path, "cannot be read: " + reason(errno));
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  bytes.resize(used);
  return bytes;
}

/// A zlib inflater for gzip members, released on every way out.
struct Inflater {
  z_stream stream{};
  explicit Inflater(const std::string& where) {
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (inflateInit2(&stream, gzip_only) != Z_OK) throw IoError(where, "cannot be unpacked: no memory for zlib");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

uInt clamp_to_uint(std::size_t n) { return static_cast<uInt>(std::min<std::size_t>(n, std::numeric_limits<uInt>::max())); }

}  // namespace

bool is_gzip(std::string_view bytes) noexcept { return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b'; }

std::string gunzip(std::string_view bytes, const std::string& where) {
  Inflater inflater(where);
  z_stream& z = inflater.stream;
  std::string out;
  std::size_t read = 0, written = 0;
  for (;;) {
    make_room(out, written, where);
    const uInt available_in = clamp_to_uint(bytes.size() - read), available_out = clamp_to_uint(out.size() - written);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + read));
    z.avail_in = available_in;
    z.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    z.avail_out = available_out;
    const int status = inflate(&z, Z_NO_FLUSH);
    read += available_in - z.avail_in;
    written += available_out - z.avail_out;
    if (status == Z_STREAM_END) {
      if (read == bytes.size()) break;
      inflateReset(&z);                  // another member follows
    } else if (status == Z_BUF_ERROR) {  // no progress although there is room: the input has ended too early
      throw IoError(where, "is a gzip file that was cut short", "fetch it again");
    } else if (status != Z_OK) {
      throw IoError(where, cat("is a damaged gzip file", z.msg ? cat(" (", z.msg, ")") : std::string()), "fetch it again");
    }
  }
  out.resize(written);
  return out;
}

std::string read_file(const std::string& path) {
  const Descriptor file(open_to_read(path));
  struct stat status {};
  if (::fstat(file.id, &status) != 0) throw IoError(path, "cannot be read: " + reason(errno));
  if (S_ISDIR(status.st_mode)) throw IoError(path, "is a directory, not a file");
  const std::size_t expected = S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) : first_block;
  std::string bytes = read_all(file.id, expected, path);
  if (is_gzip(bytes)) bytes = gunzip(bytes, path);
  if (bytes.empty()) throw IoError(path, "is empty");
  return bytes;
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t limit = 40;
  std::size_t length = std::min(text.size(), limit);
  if (length < text.size())
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
  std::string out = "\"";
  for (const char c : text.substr(0, length)) out += static_cast<unsigned char>(c) < 0x20 || c == '\x7f' ? '?' : c;
  out += length < text.size() ? "...\"" : "\"";
  return out;
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  Descriptor file(open_to_read(path_));
  struct stat status {};
  if (::fstat(file.id, &status) != 0) throw IoError(path_, "cannot be read: " + reason(errno));
  if (!S_ISREG(status.st_mode)) throw IoError(path_, "is no regular file");
  size_ = static_cast<std::size_t>(status.st_size);
  descriptor_ = std::exchange(file.id, -1);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::size_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError(path_, "cannot be read: " + reason(errno));
    if (got == 0) throw IoError(path_, "became shorter while it was read");
    offset += static_cast<std::size_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

OutputFile::OutputFile(std::string path, bool force) : path_(std::move(path)), target_(path_), force_(force) {
  if (path_.empty()) throw IoError("output", "the file name is empty");
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (!exists && ::lstat(path_.c_str(), &status) == 0) throw IoError(path_, "is a symbolic link to nothing");
  if (exists && S_ISDIR(status.st_mode)) throw IoError(path_, "is a directory, not a file");
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) throw IoError(path_, "cannot be written: " + reason(errno));
    return;
  }
  if (exists) {
    if (!force) throw IoError(path_, "exists already", "choose another name, or overwrite it with --force");
    if (::access(path_.c_str(), W_OK) != 0) throw IoError(path_, "cannot be written: " + reason(errno));
    std::error_code failed;
    target_ = std::filesystem::canonical(path_, failed).string();
    if (failed) throw IoError(path_, "cannot be written: " + failed.message());
  }
  open_temporary(exists ? status.st_mode & 0777U : 0666U, exists);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      force_(other.force_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() { discard(); }

void OutputFile::open_temporary(unsigned mode, bool keep_mode) {
  static std::atomic<unsigned> counter{0};
  const std::filesystem::path target(target_);
  if (target.filename().empty()) throw IoError(path_, "is not a file name");
  do {
    const std::string name = cat(".", target.filename().string(), ".", ::getpid(), "-", counter.fetch_add(1), ".tmp");
    temporary_ = (target.parent_path() / name).string();
    // Not mkstemp: that would make the result private to the user whatever the umask says.
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, static_cast<mode_t>(mode));
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    const int code = errno;
    temporary_.clear();
    if (code == ENOENT) throw IoError(path_, "cannot be written: its folder does not exist", "create the folder first");
    throw IoError(path_, "cannot be written: " + reason(code));
  }
  if (keep_mode && ::fchmod(descriptor_, static_cast<mode_t>(mode)) != 0) {
    const int code = errno;
    discard();
    throw IoError(path_, "cannot be written: " + reason(code));
  }
}

void OutputFile::write(std::string_view bytes) {
  if (descriptor_ < 0) throw IoError(path_, "is closed: it was committed or moved from");
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw IoError(path_, "cannot be written: " + reason(errno));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::commit() {
  if (descriptor_ < 0) throw IoError(path_, "is closed: it was committed or moved from");
  const bool direct = temporary_.empty();
  if (!direct && ::fsync(descriptor_) != 0) throw IoError(path_, "cannot be written: " + reason(errno));
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0) throw IoError(path_, "cannot be written: " + reason(errno));
  if (direct) return;
  struct stat status {};
  if (!force_ && ::lstat(target_.c_str(), &status) == 0)
    throw IoError(path_, "was created by somebody else meanwhile", "choose another name, or overwrite it with --force");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw IoError(path_, "cannot be written: " + reason(errno));
  temporary_.clear();
}

void OutputFile::discard() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void write_file(const std::string& path, std::string_view bytes, bool force) {
  OutputFile file(path, force);
  file.write(bytes);
  file.commit();
}

}  // namespace gradus::io
