#include "engine/io/npy.hpp"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/io/data.hpp"

using namespace gradus;
using namespace gradus::io;
using namespace gradus::testing;

namespace {

/// An npy file put together by hand.
std::string npy(const std::string& header, std::string_view data, int version = 1) {
  std::string file = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  const std::size_t length = header.size() + 1;
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(length >> (8 * i) & 255U);
  return file + header + "\n" + std::string(data);
}

std::string dict(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> values_of(const NpyArray& array) {
  REQUIRE(static_cast<index_t>(sizeof(T)) == size_of(array.dtype));
  std::vector<T> values(array.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

std::vector<double> as_doubles(const NpyArray& array) {
  const auto widen = [&](auto zero) {
    const auto values = values_of<decltype(zero)>(array);
    return std::vector<double>(values.begin(), values.end());
  };
  switch (array.dtype) {
    case DType::f32: return widen(0.0F);
    case DType::f64: return widen(0.0);
    case DType::i64: return widen(index_t{0});
    default: return widen(std::uint8_t{0});
  }
}

NpyArray parse(const std::string& file) { return parse_npy(file, "a.npy"); }
std::string fault(const std::string& file) {
  return io_error([&] { (void)parse(file); });
}
const std::string eight(8, '\0');

}  // namespace

TEST_CASE("the npy files that NumPy wrote are read with its values") {
  const std::string folder = shared_data("format-vectors/npy");
  if (folder.empty()) return;
  const auto expected = nlohmann::json::parse(contents(folder + "/expected.json"));
  CHECK(expected.size() == 13);
  for (const auto& [name, want] : expected.items()) {
    INFO(name);
    const std::string path = folder + "/" + name;
    if (want["sum"].is_null()) {
      CHECK_THAT(io_error([&] { (void)read_npy(path); }), says("\"<c16\", which are not read"));
      continue;
    }
    const NpyArray array = read_npy(path);
    const auto shape = want["shape"].get<std::vector<index_t>>();
    CHECK(array.shape == Shape(std::span<const index_t>(shape)));
    const std::string descr = want["dtype"];
    CHECK(array.dtype == (descr == "<f4" || descr == "<f2" ? DType::f32 : descr.substr(1) == "f8" ? DType::f64 : descr == "|b1" ? DType::boolean : DType::i64));
    const std::vector<double> values = as_doubles(array);
    double sum = 0;
    for (const double value : values) sum += value;
    CHECK(sum == Approx(want["sum"].get<double>()).margin(1e-6));
    for (std::size_t i = 0; i < want["first"].size(); ++i) CHECK(values[i] == want["first"][i].get<double>());
  }
}

TEST_CASE("NumPy's own test files are read or refused") {
  const std::string folder = shared_data("format-vectors/npy");
  if (folder.empty()) return;
  CHECK(values_of<double>(read_npy(folder + "/numpy-own_python3.npy")) == std::vector<double>{1, 1});
  CHECK(values_of<double>(read_npy(folder + "/numpy-own_win64python2.npy")) == std::vector<double>{1, 1});
  CHECK_THAT(io_error([&] { (void)read_npy(folder + "/numpy-own_py3-objarr.npy"); }), says("\"|O8\", which are not read"));
  CHECK_THAT(io_error([&] { (void)read_npy(folder + "/stored.npz"); }), says("does not begin with"));
}

TEST_CASE("what is written is read back bit for bit, in all types and shapes") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean})
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{0}, Shape{2, 3}, Shape{0, 3}, Shape{1, 2, 1, 2, 1, 2, 1, 2}}) {
      INFO(name_of(dtype) << " " << shape);
      std::vector<std::byte> bytes(static_cast<std::size_t>(byte_size(shape, dtype)));
      std::mt19937 random(7);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & (dtype == DType::boolean ? 1U : 255U));
      const std::string file = format_npy(shape, dtype, bytes);
      CHECK((file.size() - bytes.size()) % 64 == 0);
      const NpyArray array = parse(file);
      CHECK(array.shape == shape);
      CHECK(array.dtype == dtype);
      CHECK(array.bytes == bytes);
    }
  CHECK_THROWS_AS(format_npy({2}, DType::f64, std::vector<std::byte>(15)), ValueError);
}

TEST_CASE("a written file has the bytes that NumPy writes") {
  const std::string folder = shared_data("format-vectors/npy");
  if (folder.empty()) return;
  for (const char* name : {"f8_c_v1.npy", "i8.npy", "bool.npy", "scalar_0d.npy", "empty_0x3.npy"}) {
    INFO(name);
    const NpyArray array = read_npy(folder + "/" + name);
    CHECK(format_npy(array.shape, array.dtype, array.bytes) == contents(folder + "/" + name));
  }
}

TEST_CASE("Fortran order becomes row-major order at any rank") {
  std::vector<index_t> stored(24), expected(24);
  for (index_t i = 0; i < 24; ++i) stored[static_cast<std::size_t>(i)] = i;
  std::size_t next = 0;
  for (index_t a = 0; a < 2; ++a)
    for (index_t b = 0; b < 3; ++b)
      for (index_t c = 0; c < 4; ++c) expected[next++] = a + 2 * b + 6 * c;
  CHECK(values_of<index_t>(parse(npy(dict("<i8", "(2, 3, 4)", true), raw(stored)))) == expected);
  CHECK(values_of<index_t>(parse(npy(dict("<i8", "(24,)", true), raw(stored)))) == stored);
  CHECK(parse(npy(dict("<i8", "(3, 0)", true), "")).bytes.empty());
}

TEST_CASE("small integers widen with their sign, from either byte order") {
  CHECK(values_of<index_t>(parse(npy(dict("|i1", "(2,)"), "\xff\x7f"))) == std::vector<index_t>{-1, 127});
  CHECK(values_of<index_t>(parse(npy(dict("|u1", "(2,)"), "\xff\x7f"))) == std::vector<index_t>{255, 127});
  CHECK(values_of<index_t>(parse(npy(dict(">i2", "(1,)"), "\xff\xfe"))) == std::vector<index_t>{-2});
  CHECK(values_of<index_t>(parse(npy(dict("<u2", "(1,)"), "\xff\xfe"))) == std::vector<index_t>{0xfeff});
  CHECK(values_of<index_t>(parse(npy(dict(">i4", "(1,)"), "\x80\xff\xff\xff"))) == std::vector<index_t>{-2130706433});
  CHECK(values_of<index_t>(parse(npy(dict("<u4", "(1,)"), "\xff\xff\xff\xff"))) == std::vector<index_t>{4294967295});
  CHECK(values_of<float>(parse(npy(dict(">f4", "(1,)"), "\x3f\xc0" + std::string(2, '\0')))) == std::vector<float>{1.5F});
}

TEST_CASE("every half-precision number widens exactly") {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  const auto floats = values_of<float>(parse(npy(dict("<f2", "(65536,)"), raw(halves))));
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31U), fraction = static_cast<int>(i & 1023U);
    double magnitude = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    if (exponent == 31) magnitude = fraction ? NAN : HUGE_VAL;
    const double expected = i & 0x8000U ? -magnitude : magnitude;
    const bool same = std::isnan(expected) ? std::isnan(floats[i]) : floats[i] == expected && std::signbit(floats[i]) == std::signbit(expected);
    if (!same) FAIL("half " << i << " became " << floats[i]);
  }
}

TEST_CASE("a header of 100 bytes that claims gigabytes is refused before memory is asked for") {
  for (const char* shape : {"(1000000000, 3)", "(3000000000,)", "(9223372036854775807,)", "(4294967296, 4294967296)", "(2305843009213693952, 8)"}) {
    INFO(shape);
    CHECK_THAT(fault(npy(dict("|u1", shape), eight)), says("[a.npy] announces shape") && says("8 bytes of data follow"));
    CHECK_THAT(fault(npy(dict("<f8", shape), eight)), says("8 bytes of data follow"));
  }
  CHECK_THAT(fault(npy(dict("<f8", "(0, 9223372036854775807, 2)"), eight)), says("8 bytes of data follow"));
  CHECK(parse(npy(dict("<f8", "(0, 9223372036854775807, 2)"), "")).bytes.empty());
  CHECK(parse(npy(dict("<f8", "(9223372036854775807, 9223372036854775807, 0)", true), "")).bytes.empty());
  CHECK_THAT(fault(npy(dict("<f8", "(99999999999999999999,)"), eight)), says("beyond 64 bits"));
}

TEST_CASE("data must have exactly the announced size") {
  CHECK_THAT(fault(npy(dict("<f8", "(1,)"), eight + "x")), says("9 bytes of data follow"));
  CHECK_THAT(fault(npy(dict("<f8", "(2,)"), eight)), says("8 bytes of data follow"));
  CHECK_THAT(fault(npy(dict("<f8", "()"), "")), says("0 bytes of data follow"));
  CHECK_THAT(fault(npy(dict("|b1", "(2,)"), "\x01\x02")), says("the byte 2 among its bools"));
}

TEST_CASE("only the plain header literal is understood") {
  const std::string good = dict("<f8", "(1,)");
  CHECK(parse(npy(good, eight)).shape == Shape{1});
  CHECK(parse(npy("{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"<f8\"}", eight, 2)).shape == Shape{1});
  CHECK(parse(npy(dict("<f8", "(1, 1)"), eight, 3)).shape == Shape{1, 1});
  for (const char* header : {"", "{}", "[]", "{'descr': '<f8'}", "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': ()}",
                             "{'descr': '<f8', 'fortran_order': False, 'shape': (), 'more': 1}", "{'descr': '<f8', 'fortran_order': 0, 'shape': ()}",
                             "{'descr': '<f8', 'fortran_order': False, 'shape': (1)}", "{'descr': '<f8', 'fortran_order': False, 'shape': [1]}",
                             "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", "{'descr': '<f8', 'fortran_order': False, 'shape': (1 1)}",
                             "{'descr': '<f8', 'fortran_order': False, 'shape': (,)}", "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)} + x",
                             "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)", "{'descr': '<f8, 'fortran_order': False, 'shape': (1,)}"}) {
    INFO(header);
    CHECK_THAT(fault(npy(header, eight)), says("is not a valid npy file: header"));
  }
  CHECK_THAT(fault(npy(dict("<f8", "(1,1,1,1,1,1,1,1,1)"), eight)), says("more than 8 axes"));
  CHECK_THAT(fault(npy("{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (1,)}", eight)), says("named fields"));
  for (const char* descr : {"<c8", "|O", "<U3", "|S8", "<M8", "|f8", "<f3", "<u8", "<f16", "f8", "", "|V8", "<b2"}) {
    INFO(descr);
    CHECK_THAT(fault(npy(dict(descr, "(1,)"), eight)), says("which are not read"));
  }
}

TEST_CASE("the frame around the header is checked") {
  const std::string good = npy(dict("<f8", "(1,)"), eight);
  CHECK_THAT(fault("PK\x03\x04"), says("does not begin with"));
  for (const int version : {0, 4, 255}) {
    std::string file = good;
    file[6] = static_cast<char>(version);
    CHECK_THAT(fault(file), says("is npy version " + std::to_string(version) + ".0"));
  }
  std::string minor = good, longer = good, no_end = good;
  minor[7] = 1;
  longer[9] = 1;
  no_end[8] = static_cast<char>(no_end[8] - 1);
  CHECK_THAT(fault(minor), says("is npy version 1.1"));
  CHECK_THAT(fault(longer), says("header is longer than the file"));
  CHECK_THAT(fault(no_end), says("does not end in a new line"));
  for (std::size_t length = 0; length < good.size(); ++length) CHECK_THROWS_AS(parse(good.substr(0, length)), IoError);
}

TEST_CASE("damaged npy files are read or refused, never worse") {
  const std::string files[] = {npy(dict("<f2", "(2, 3)", true), std::string(12, '\1')), npy(dict("|b1", "(2, 3)"), std::string(6, '\1'), 2),
                               npy(dict("<i4", "(2L, 0)"), "", 3)};
  std::mt19937 random(11);
  for (const std::string& file : files)
    for (int round = 0; round < 20000; ++round) {
      std::string damaged = file;
      for (auto flips = 1 + random() % 3; flips > 0; --flips) {
        char& byte = damaged[random() % file.size()];
        byte = static_cast<char>(byte ^ (1 << random() % 8));
      }
      try {
        const NpyArray array = parse(damaged);
        REQUIRE(static_cast<index_t>(array.bytes.size()) == byte_size(array.shape, array.dtype));
      } catch (const IoError&) {
      }
    }
}
