#include "engine/io/npz.hpp"

#include <zlib.h>

#include <random>

#include "engine/io/bytes.hpp"
#include "engine/io/file.hpp"
#include "engine/io/tensor_files.hpp"
#include "engine/tensor/view.hpp"
#include "tests/io/data.hpp"
#include "tests/reference.hpp"

using namespace gradus;
using namespace gradus::io;
using namespace gradus::testing;

namespace {

/// A member as a test wants it: the headers may lie.
struct Member {
  std::string name, data;
  unsigned method = 0, flags = 0;
  std::size_t size = 0, packed = 0;
  std::uint32_t crc = 0;
  std::string extra;
  std::uint32_t local_size = 0, local_packed = 0;
};

std::uint32_t checksum(const std::string& bytes) {
  return static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

Member stored(const std::string& name, const std::string& data) {
  const auto size = static_cast<std::uint32_t>(data.size());
  return {name, data, 0, 0, size, size, checksum(data), "", size, size};
}

Member deflated(const std::string& name, const std::string& data) {
  z_stream z{};
  deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&z, data.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  z.avail_in = static_cast<uInt>(data.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  Member member = stored(name, packed);
  member.method = 8;
  member.crc = checksum(data);
  member.size = data.size();
  member.local_size = static_cast<std::uint32_t>(data.size());
  return member;
}

void put_16(std::string& to, std::size_t value) { put_little(to, static_cast<std::uint16_t>(value)); }
void put_32(std::string& to, std::size_t value) { put_little(to, static_cast<std::uint32_t>(value)); }

std::string end_record(std::size_t count, std::size_t size, std::size_t begin, const std::string& comment = "") {
  std::string end = "PK\5\6";
  end.append(4, '\0');
  put_16(end, count);
  put_16(end, count);
  put_32(end, size);
  put_32(end, begin);
  put_16(end, comment.size());
  return end + comment;
}

std::string zip(const std::vector<Member>& members, const std::string& comment = "") {
  std::string file, directory;
  for (const Member& m : members) {
    const std::size_t begin = file.size();
    file += std::string("PK\3\4\x14\0", 6);
    for (const std::size_t field : {std::size_t{m.flags}, std::size_t{m.method}, std::size_t{0}, std::size_t{33}}) put_16(file, field);
    for (const std::size_t field : {std::size_t{m.crc}, std::size_t{m.local_packed}, std::size_t{m.local_size}}) put_32(file, field);
    put_16(file, m.name.size());
    put_16(file, m.extra.size());
    file += m.name + m.extra + m.data;
    directory += std::string("PK\1\2\x14\0\x14\0", 8);
    for (const std::size_t field : {std::size_t{m.flags}, std::size_t{m.method}, std::size_t{0}, std::size_t{33}}) put_16(directory, field);
    for (const std::size_t field : {std::size_t{m.crc}, m.packed, m.size}) put_32(directory, field);
    put_16(directory, m.name.size());
    directory.append(12, '\0');
    put_32(directory, begin);
    directory += m.name;
  }
  return file + directory + end_record(members.size(), directory.size(), file.size(), comment);
}

const Tensor matrix = Tensor::of({{1, -2, 3}, {4, 5, 6.5}}, DType::f64);
const std::string array = format_npy(matrix);

std::map<std::string, Tensor> read(const std::string& bytes) {
  const TemporaryFolder folder;
  return read_npz(folder.put("a.npz", bytes));
}
std::string fault(const std::string& bytes) {
  return io_error([&] { (void)read(bytes); });
}
std::string fault(const Member& member) { return fault(zip({member})); }

}  // namespace

TEST_CASE("stored and compressed npz files that NumPy wrote are read alike") {
  const std::string folder = shared_data("format-vectors/npy");
  if (folder.empty()) return;
  const Tensor x = load_npy(folder + "/f8_c_v1.npy");
  for (const char* name : {"/stored.npz", "/deflated.npz"}) {
    const auto arrays = read_npz(folder + name);
    REQUIRE(arrays.size() == 2);
    CHECK(bit_equal(arrays.at("x"), x));
    CHECK(arrays.at("y").dtype() == DType::i64);
    CHECK(equal(arrays.at("y"), Tensor::arange(5)));
  }
}

TEST_CASE("reference values are read, and a deviation is relative to the largest of them or 1") {
  const auto arrays = reference("optimisers");
  if (!arrays.empty()) CHECK(equal(arrays.at("A"), Tensor::of({{1, 0, 0}, {0, 3, 0}, {0, 0, 10}}, DType::f64)));
  CHECK(deviation(Tensor::of({1, 2}), Tensor::of({1, 4}, DType::f64)) == 0.5);
  CHECK(deviation(Tensor::of({0.5}), Tensor::of({0.25})) == 0.25);
  const Tensor infinite = Tensor::full({1}, HUGE_VAL), nan = Tensor::full({1}, NAN), one = Tensor::ones({1});
  CHECK(deviation(infinite, infinite) == 0);
  CHECK(deviation(nan, nan) == 0);
  for (const auto& [a, b] : {std::pair(one, infinite), std::pair(infinite, one), std::pair(nan, one), std::pair(one, nan), std::pair(one, Tensor::ones({2}))})
    CHECK_FALSE(deviation(a, b) <= 1);
}

TEST_CASE("tensors of every dtype and layout come back from npz files, and equal ones give equal bytes") {
  const TemporaryFolder folder;
  std::map<std::string, Tensor> tensors{
      {"number", Tensor::scalar(2.5, DType::f64)}, {"a/b", view::transpose(matrix, 0, 1)}, {"\xc3\xa4", Tensor::ones({2, 0})}};
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean})
    tensors.emplace(name_of(dtype), view::expand(Tensor::ones({1, 2}, dtype), {3, 2}));
  write_npz(folder.file("a.npz"), tensors);
  const auto back = read_npz(folder.file("a.npz"));
  REQUIRE(back.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) CHECK(bit_equal(back.at(name), contiguous(tensor)));
  write_npz(folder.file("b.npz"), back);
  CHECK(contents(folder.file("a.npz")) == contents(folder.file("b.npz")));
  CHECK_THROWS_AS(write_npz(folder.file("a.npz"), tensors), IoError);
  write_npz(folder.file("a.npz"), {}, true);
  CHECK(read_npz(folder.file("a.npz")).empty());
  CHECK_THROWS_AS(write_npz(folder.file("c.npz"), {{"", matrix}}), IoError);
  CHECK_THROWS_AS(write_npz(folder.file("c.npz"), {{"none", Tensor()}}), IoError);
  CHECK_THROWS_AS(write_npz(folder.file("c.npz"), {{std::string(70000, 'n'), matrix}}), IoError);
  CHECK(folder.count() == 2);
}

TEST_CASE("archives are read with comments, with sizes that follow the data, and with sizes in a zip64 field") {
  CHECK(equal(read(zip({stored("a.npy", array), deflated("b.npy", array)}, "a comment")).at("b"), matrix));
  Member follow = deflated("a.npy", array);
  follow.flags = 8;
  follow.local_size = follow.local_packed = 0;
  CHECK(equal(read(zip({follow})).at("a"), matrix));
  Member wide = stored("a.npy", array);
  wide.local_size = wide.local_packed = 0xffffffff;
  CHECK_THAT(fault(wide), says("the two headers of member \"a.npy\" differ"));
  put_16(wide.extra, 1);
  put_16(wide.extra, 16);
  put_little(wide.extra, std::uint64_t{array.size()});
  put_little(wide.extra, std::uint64_t{array.size()});
  CHECK(equal(read(zip({wide})).at("a"), matrix));
  ++wide.extra[4];
  CHECK_THAT(fault(wide), says("the two headers of member \"a.npy\" differ"));
}

TEST_CASE("a member must be an array with a name of its own") {
  CHECK_THAT(fault(stored("a.txt", array)), says("holds \"a.txt\", which is no array"));
  CHECK_THAT(fault(stored(".npy", array)), says("holds \".npy\", which is no array"));
  CHECK_THAT(fault(stored("a.npy", "text")), says("a.npz/a.npy] is not a valid npy file"));
  CHECK_THAT(fault(stored("a.npy", "")), says("is not a valid npy file"));
  CHECK_THAT(fault(deflated("a.npy", "")), says("is not a valid npy file"));
  CHECK_THAT(fault(zip({stored("a.npy", array), stored("b.npy", array), stored("a.npy", array)})), says("two members are called \"a.npy\""));
}

TEST_CASE("claims about sizes are checked before memory is asked for") {
  Member huge = deflated("a.npy", array);
  huge.size = huge.local_size = 4000000000U;
  CHECK_THAT(fault(huge), says("claims to hold 4000000000"));
  Member longer = stored("a.npy", array);
  longer.size = longer.local_size = static_cast<std::uint32_t>(array.size() + 1);
  CHECK_THAT(fault(longer), says("claims to hold " + std::to_string(array.size() + 1)));
  for (const std::size_t packed : {array.size() + 1, std::size_t{4000000000U}}) {
    Member outside = stored("a.npy", array);
    outside.size = outside.packed = packed;
    outside.local_size = outside.local_packed = static_cast<std::uint32_t>(packed);
    CHECK_THAT(fault(outside), says("member \"a.npy\" reaches outside"));
  }
  for (const std::size_t off : {std::size_t{1}, array.size()}) {
    Member wrong = deflated("a.npy", array);
    wrong.size += off;
    wrong.local_size = static_cast<std::uint32_t>(wrong.size);
    CHECK_THAT(fault(wrong), says("does not unpack to"));
    wrong.size = array.size() - off;
    wrong.local_size = static_cast<std::uint32_t>(wrong.size);
    CHECK_THAT(fault(wrong), says("does not unpack to"));
  }
  CHECK_THAT(fault(std::string("PK\3\4") + end_record(65534, 0, 4)), says("directory is damaged"));
  CHECK_THAT(fault(end_record(1, 0xffffffff, 0)), says("zip64 archive"));
  CHECK_THAT(fault(end_record(1, 10, 0xfffffff0)), says("directory does not end"));
}

TEST_CASE("checksums, methods, encryption and overlaps are checked") {
  Member member = stored("a.npy", array);
  ++member.crc;
  CHECK_THAT(fault(member), says("checksum is wrong"));
  member = deflated("a.npy", array);
  member.crc ^= 1U;
  CHECK_THAT(fault(member), says("checksum is wrong"));
  member = stored("a.npy", array);
  member.method = 12;
  CHECK_THAT(fault(member), says("packed by method 12"));
  member.method = 0;
  member.flags = 1;
  CHECK_THAT(fault(member), says("encrypted"));
  // The first member's data hold a whole second one, to which the directory also points.
  const std::string inner_archive = zip({stored("b.npy", array)});
  const std::string inner = inner_archive.substr(0, 30 + 5 + array.size());
  std::string outer = zip({stored("a.npy", inner), stored("b.npy", array)});
  const std::size_t pointer = outer.size() - 22 - 5 - 4;
  outer.replace(pointer, 4, std::string("\x23\0\0\0", 4));
  CHECK_THAT(fault(outer), says("members \"a.npy\" and \"b.npy\" overlap"));
}

TEST_CASE("an archive cut anywhere is refused") {
  const std::string good = zip({stored("a.npy", array), deflated("b.npy", array)});
  for (std::size_t length = 0; length < good.size(); ++length) CHECK_THROWS_AS(read(good.substr(0, length)), IoError);
  CHECK_THROWS_AS(read(good + "x"), IoError);
  CHECK_THROWS_AS(read("x" + good), IoError);
}

TEST_CASE("damaged archives are read or refused, never worse") {
  const std::string good = zip({stored("a.npy", array), deflated("b.npy", array)});
  const TemporaryFolder folder;
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::string damaged = good;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      char& byte = damaged[random() % good.size()];
      byte = static_cast<char>(byte ^ (1 << random() % 8));
    }
    try {
      for (const auto& [name, tensor] : read_npz(folder.put("a.npz", damaged))) REQUIRE(tensor.numel() <= 6);
    } catch (const IoError&) {
    }
  }
}
