#include "engine/io/zip.hpp"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/core/error.hpp"
#include "engine/io/bytes.hpp"

namespace gradus::io {
namespace {

constexpr std::uint32_t member_mark = 0x04034b50, directory_mark = 0x02014b50, end_mark = 0x06054b50;
constexpr std::size_t member_header = 30, directory_header = 46, end_header = 22;
constexpr std::uint32_t in_zip64 = 0xffffffff;
constexpr unsigned encrypted = 1, sizes_follow = 8, utf8_name = 0x800;  // flag bits
constexpr unsigned stored = 0, deflated = 8;                            // methods
constexpr std::uint16_t version = 20, first_of_1980 = 0x21;

struct Directory {
  std::size_t begin = 0, end = 0, count = 0;
};

struct Placed {
  ZipMember member;
  std::size_t begin = 0, end = 0;  // of header and data
};

/// Offsets inside headers are those of sections 4.3.7 (member), 4.3.12 (directory) and 4.3.16 (end) of the specification.
class ZipReader {
 public:
  ZipReader(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  [[nodiscard]] std::vector<ZipMember> list() const {
    const Directory directory = find_directory();
    std::vector<Placed> placed;
    std::size_t at = directory.begin;
    for (std::size_t i = 0; i < directory.count; ++i) placed.push_back(read_entry(at, directory));
    if (at != directory.end) fail("its directory has another size than announced");
    require_apart(placed);
    std::vector<ZipMember> members;
    for (Placed& p : placed) members.push_back(std::move(p.member));
    return members;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw IoError(where_, "is not a valid zip archive: " + what); }

  [[nodiscard]] std::uint16_t u16(std::size_t at) const { return get_little<std::uint16_t>(bytes_, at); }
  [[nodiscard]] std::uint32_t u32(std::size_t at) const { return get_little<std::uint32_t>(bytes_, at); }
  [[nodiscard]] std::uint64_t u64(std::size_t at) const { return get_little<std::uint64_t>(bytes_, at); }

  /// The end record is at the very end of the file, before a comment of exactly the length it states.
  [[nodiscard]] Directory find_directory() const {
    if (bytes_.size() < end_header) fail("it was cut short");
    const std::size_t last = bytes_.size() - end_header, first = last - std::min<std::size_t>(last, 0xffff);
    std::size_t end = last;
    while (u32(end) != end_mark || u16(end + 20) != last - end)
      if (end-- == first) fail("it has no end record");
    const std::size_t count = u16(end + 10), size = u32(end + 12), begin = u32(end + 16);
    if (count == 0xffff || size == in_zip64 || begin == in_zip64) throw IoError(where_, "is a zip64 archive, which is not read", "keep it below 4 GB");
    if (u16(end + 4) != 0 || u16(end + 6) != 0 || u16(end + 8) != count) fail("it is one of several volumes");
    if (begin > end || size != end - begin) fail("its directory does not end at the end record");
    return {begin, end, count};
  }

  /// Reads the directory's entry at `at`, with the member's own header, and moves `at` behind it.
  Placed read_entry(std::size_t& at, const Directory& directory) const {
    if (directory.end - at < directory_header || u32(at) != directory_mark) fail("its directory is damaged");
    const unsigned flags = u16(at + 8), method = u16(at + 10);
    const std::size_t name_size = u16(at + 28), tail = std::size_t{u16(at + 30)} + u16(at + 32), packed = u32(at + 20);
    if (name_size + tail > directory.end - at - directory_header) fail("its directory is damaged");
    Placed placed;
    ZipMember& member = placed.member;
    member.name = bytes_.substr(at + directory_header, name_size);
    if (flags & encrypted) throw IoError(where_, cat("has the encrypted member ", excerpt(member.name), ", which is not read"));
    if (method != stored && method != deflated)
      throw IoError(where_, cat("has member ", excerpt(member.name), " packed by method ", method, ", which is not read"), "store or deflate it");
    member.crc = u32(at + 16);
    member.size = u32(at + 24);
    member.deflated = method == deflated;
    placed.begin = u32(at + 42);
    if (packed == in_zip64 || member.size == in_zip64 || placed.begin == in_zip64)
      throw IoError(where_, "is a zip64 archive, which is not read", "keep it below 4 GB");
    const std::size_t data = check_header(at, placed, directory.begin);
    if (packed > directory.begin - data) fail(cat("member ", excerpt(member.name), " reaches outside"));
    placed.end = data + packed;
    member.packed = bytes_.substr(data, packed);
    require_possible(member);
    at += directory_header + name_size + tail;
    return placed;
  }

  /// Compares the member's own header with the directory's entry; returns where its data begin.
  [[nodiscard]] std::size_t check_header(std::size_t entry, const Placed& placed, std::size_t limit) const {
    const std::size_t at = placed.begin;
    const std::string& name = placed.member.name;
    const auto differ = [&] { fail(cat("the two headers of member ", excerpt(name), " differ")); };
    if (at > limit || limit - at < member_header || u32(at) != member_mark) fail(cat("member ", excerpt(name), " is not where the directory says"));
    const std::size_t name_size = u16(at + 26), extra_size = u16(at + 28);
    if (name_size + extra_size > limit - at - member_header) fail(cat("member ", excerpt(name), " reaches outside"));
    const std::size_t extra = at + member_header + name_size;
    if (bytes_.substr(at + member_header, name_size) != name || u16(at + 6) != u16(entry + 8) || u16(at + 8) != u16(entry + 10)) differ();
    if (!(u16(at + 6) & sizes_follow)) {
      if (u32(at + 14) != u32(entry + 16)) differ();
      if (u32(at + 18) != u32(entry + 20) || u32(at + 22) != u32(entry + 24))
        if (!zip64_agrees(at, entry, extra, extra_size)) differ();
    }
    return extra + extra_size;
  }

  /// NumPy states the sizes of every member in a zip64 field and may leave 0xffffffff in their ordinary places.
  [[nodiscard]] bool zip64_agrees(std::size_t at, std::size_t entry, std::size_t extra, std::size_t extra_size) const {
    if (u32(at + 18) != in_zip64 || u32(at + 22) != in_zip64) return false;
    constexpr std::size_t field = 4 + 16;  // tag, length, size, packed size
    return extra_size >= field && u16(extra) == 1 && u16(extra + 2) >= 16 && u64(extra + 4) == u32(entry + 24) && u64(extra + 12) == u32(entry + 20);
  }

  /// Deflate gives at most 1032 bytes for one, so that a claimed size is bounded by the file before memory is asked for.
  void require_possible(const ZipMember& member) const {
    constexpr std::size_t deflate_limit = 1032;
    const bool possible = member.deflated ? member.size <= member.packed.size() * deflate_limit : member.size == member.packed.size();
    if (!possible) fail(cat("member ", excerpt(member.name), " of ", member.packed.size(), " bytes claims to hold ", member.size));
  }

  void require_apart(const std::vector<Placed>& placed) const {
    std::vector<const Placed*> order;
    std::vector<std::string_view> names;
    for (const Placed& p : placed) {
      order.push_back(&p);
      names.push_back(p.member.name);
    }
    std::sort(order.begin(), order.end(), [](const Placed* a, const Placed* b) { return a->begin < b->begin; });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (order[i]->begin < order[i - 1]->end) fail(cat("members ", excerpt(order[i - 1]->member.name), " and ", excerpt(order[i]->member.name), " overlap"));
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) fail(cat("two members are called ", excerpt(*twice)));
  }

  std::string_view bytes_;
  const std::string& where_;
};

/// Inflates exactly `size` bytes from exactly the packed ones.
std::string inflate_member(const ZipMember& member, const std::string& where) {
  std::string bytes(member.size, '\0');
  z_stream z{};
  constexpr int raw = -MAX_WBITS;
  if (inflateInit2(&z, raw) != Z_OK) throw IoError(where, "cannot be unpacked: no memory for zlib");
  // Both fit 32 bits: the archive is no zip64. One byte of room for an empty member, since zlib refuses a null pointer.
  Bytef none = 0;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(member.packed.data()));
  z.avail_in = static_cast<uInt>(member.packed.size());
  z.next_out = bytes.empty() ? &none : reinterpret_cast<Bytef*>(bytes.data());
  z.avail_out = static_cast<uInt>(bytes.size());
  const int status = inflate(&z, Z_FINISH);
  const bool whole = status == Z_STREAM_END && z.avail_in == 0 && z.avail_out == 0;
  inflateEnd(&z);
  if (!whole) throw IoError(where, cat("member ", excerpt(member.name), " is damaged: it does not unpack to ", member.size, " bytes"));
  return bytes;
}

std::uint32_t checksum(std::string_view bytes) { return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size())); }

}  // namespace

std::vector<ZipMember> list_zip(std::string_view archive, const std::string& where) { return ZipReader(archive, where).list(); }

std::string unpack(const ZipMember& member, const std::string& where) {
  std::string bytes = member.deflated ? inflate_member(member, where) : std::string(member.packed);
  if (checksum(bytes) != member.crc) throw IoError(where, cat("member ", excerpt(member.name), " is damaged: its checksum is wrong"));
  return bytes;
}

void ZipWriter::add(const std::string& name, std::string_view bytes) {
  constexpr std::size_t limit = std::numeric_limits<std::uint32_t>::max(), name_limit = std::numeric_limits<std::uint16_t>::max();
  if (name.size() > name_limit) throw IoError(file_.path(), cat("a name of ", name.size(), " bytes is too long for a zip archive"));
  const std::uint64_t whole = offset_ + member_header + bytes.size() + directory_.size() + directory_header + 2 * name.size() + end_header;
  if (bytes.size() >= limit || whole >= limit || count_ + 1 >= name_limit)
    throw IoError(file_.path(), "would be larger than a zip archive can be: 4 GB or 65534 members");
  std::string common;  // the fields both headers share
  const bool ascii = std::none_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) > 127; });
  put_little<std::uint16_t>(common, version);
  put_little<std::uint16_t>(common, ascii ? 0 : utf8_name);
  put_little<std::uint16_t>(common, stored);
  put_little<std::uint16_t>(common, 0);
  put_little<std::uint16_t>(common, first_of_1980);
  put_little<std::uint32_t>(common, checksum(bytes));
  put_little(common, static_cast<std::uint32_t>(bytes.size()));
  put_little(common, static_cast<std::uint32_t>(bytes.size()));
  put_little(common, static_cast<std::uint16_t>(name.size()));
  put_little<std::uint16_t>(common, 0);
  std::string header;
  put_little(header, member_mark);
  header += common + name;
  put_little(directory_, directory_mark);
  put_little<std::uint16_t>(directory_, version);
  directory_ += common;
  directory_.append(10, '\0');  // no comment, first volume, no attributes
  put_little(directory_, static_cast<std::uint32_t>(offset_));
  directory_ += name;
  file_.write(header);
  file_.write(bytes);
  offset_ += header.size() + bytes.size();
  ++count_;
}

void ZipWriter::finish() {
  std::string end;
  put_little(end, end_mark);
  put_little<std::uint32_t>(end, 0);  // first and only volume
  put_little(end, static_cast<std::uint16_t>(count_));
  put_little(end, static_cast<std::uint16_t>(count_));
  put_little(end, static_cast<std::uint32_t>(directory_.size()));
  put_little(end, static_cast<std::uint32_t>(offset_));
  put_little<std::uint16_t>(end, 0);
  file_.write(directory_);
  file_.write(end);
}

}  // namespace gradus::io
