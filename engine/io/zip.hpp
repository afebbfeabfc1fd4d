#pragma once
// Zip archives in memory, as far as npz files use them: stored and deflated members, below 4 GB, one volume, no encryption.
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/file.hpp"

namespace gradus::io {

struct ZipMember {
  std::string name;
  std::string_view packed;  ///< its bytes in the archive
  std::size_t size = 0;     ///< once unpacked
  std::uint32_t crc = 0;
  bool deflated = false;
};

/// The members of an archive, in the order of its directory. Both headers of a member must agree, members may not overlap or
/// reach outside, names are unique, and no size is larger than its packed bytes can give; all else is an IoError naming
/// `where`. The members point into `archive`, which must outlive them.
[[nodiscard]] std::vector<ZipMember> list_zip(std::string_view archive, const std::string& where);

/// The bytes of a member. A wrong checksum or size and damaged compression are IoErrors.
[[nodiscard]] std::string unpack(const ZipMember& member, const std::string& where);

/// Writes stored members one after the other. The bytes depend on names and contents only: no times, no users.
class ZipWriter {
 public:
  explicit ZipWriter(OutputFile& file) : file_(file) {}
  /// Appends a member. A name too long, or an archive beyond 4 GB or 65535 members, is an IoError.
  void add(const std::string& name, std::string_view bytes);
  /// Writes the directory; the archive is then complete.
  void finish();

 private:
  OutputFile& file_;
  std::string directory_;
  std::uint64_t offset_ = 0;
  std::size_t count_ = 0;
};

}  // namespace gradus::io
