#include "engine/io/safetensors.hpp"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/io/bytes.hpp"
#include "engine/tensor/view.hpp"
#include "tests/io/data.hpp"

using namespace gradus;
using namespace gradus::io;
using namespace gradus::testing;

namespace {

using Named = std::vector<std::pair<std::string, Tensor>>;

/// A file put together by hand.
std::string file_of(const std::string& header, const std::string& data = "") {
  std::string file;
  put_little(file, std::uint64_t{header.size()});
  return file + header + data;
}
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) { return R"({"t":)" + entry(dtype, shape, offsets) + "}"; }

std::string fault(const std::string& file) {
  return io_error([&] { (void)parse_safetensors(file, "a.safetensors"); });
}
std::string fault(const std::string& header, const std::string& data) { return fault(file_of(header, data)); }

const std::string four(4, '\0'), eight(8, '\0');

}  // namespace

TEST_CASE("the published safetensors vectors are read or refused as their makers do") {
  const std::string folder = shared_data("format-vectors/safetensors");
  if (folder.empty()) return;
  const auto expected = nlohmann::json::parse(contents(folder + "/expected.json"));
  CHECK(expected.size() == 15);
  for (const auto& [name, outcome] : expected.items()) {
    INFO(name);
    const std::string path = folder + "/" + name + ".safetensors";
    if (outcome.get<std::string>().starts_with("error")) {
      const std::string bytes = contents(path);
      CHECK_THAT(io_error([&] { (void)read_safetensors(path); }), says("is not a valid safetensors file"));
      CHECK_THAT(fault(bytes), says("is not a valid safetensors file"));
    } else {
      CHECK(read_safetensors(path).tensors.size() == (name == "ok_whitespace_padded_header" ? 0 : 1));
    }
  }
  CHECK(equal(read_safetensors(folder + "/ok_i32_2x2.safetensors").tensors[0].second, Tensor::zeros({2, 2}, DType::i64)));
  CHECK(equal(read_safetensors(folder + "/ok_scalar_shape_empty.safetensors").tensors[0].second, Tensor::scalar(0, DType::i64)));
  CHECK(read_safetensors(folder + "/ok_zero_sized_tensor.safetensors").tensors[0].second.shape() == Shape{2, 0});
  CHECK_THAT(fault(contents(folder + "/bad_overlapping_offsets.safetensors")), says("begins at byte 0, where 16 is due"));
  CHECK_THAT(fault(contents(folder + "/bad_trailing_bytes.safetensors")), says("take 16 bytes, but 50 follow"));
}

TEST_CASE("tensors of every dtype and layout, their order and the metadata come back from safetensors") {
  const Tensor matrix = Tensor::of({{1, 0, 1}, {0, 1, 0}}, DType::f64);
  Named tensors{{"flags", Tensor::of({1, 0, 1}, DType::boolean)},  // one byte each, written last
                {"\xc3\xa4\"\n", Tensor::of({{0.1}, {-2}})},
                {"number", Tensor::scalar(2.5, DType::f64)},
                {"empty", Tensor::zeros({0, 3})},
                {"index", Tensor::arange(5)},
                {"transposed", view::transpose(matrix, 0, 1)},
                {"stepped", view::slice(matrix, 1, {.step = 2})},
                {"expanded", view::expand(Tensor::ones({1, 2}), {3, 2})},
                {"special", Tensor::of({NAN, -HUGE_VAL, -0.0, 5e-324}, DType::f64)}};
  const std::map<std::string, std::string> metadata{{"format", "gradus"}, {"note", "\"\xe2\x82\xac\"\n"}};
  const TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  write_safetensors(path, tensors, metadata);
  const SafeTensors back = read_safetensors(path);
  CHECK(back.metadata == metadata);
  REQUIRE(back.tensors.size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CHECK(back.tensors[i].first == tensors[i].first);
    CHECK(bit_equal(back.tensors[i].second, contiguous(tensors[i].second)));
  }
  const std::string bytes = contents(path);
  CHECK(get_little<std::uint64_t>(bytes, 0) % 8 == 0);
  CHECK(bit_equal(parse_safetensors(bytes, "memory").tensors[1].second, tensors[1].second));
  write_safetensors(folder.file("again.safetensors"), back.tensors, back.metadata);
  CHECK(contents(folder.file("again.safetensors")) == bytes);
  write_safetensors(folder.file("none.safetensors"), {});
  CHECK(read_safetensors(folder.file("none.safetensors")).tensors.empty());
}

TEST_CASE("a file is written whole or not at all, and replaced only by force") {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  const Tensor t = Tensor::ones({2});
  CHECK_THROWS_AS(write_safetensors(path, {{"t", t}, {"t", t}}), ValueError);
  CHECK_THROWS_AS(write_safetensors(path, {{"__metadata__", t}}), ValueError);
  CHECK_THROWS_AS(write_safetensors(path, {{"\xff", t}}), ValueError);
  CHECK_THROWS_AS(write_safetensors(path, {{"t", t}}, {{"key", "\xc0\x80"}}), ValueError);
  CHECK_THROWS_AS(write_safetensors(path, {{"t", Tensor()}}), ValueError);
  CHECK_THROWS_AS(write_safetensors(folder.file("no/m.safetensors"), {{"t", t}}), IoError);
  CHECK(folder.count() == 0);
  write_safetensors(path, {{"t", t}});
  CHECK_THROWS_AS(write_safetensors(path, {}), IoError);
  write_safetensors(path, {}, {}, true);
  CHECK(read_safetensors(path).tensors.empty());
  CHECK(folder.count() == 1);
}

TEST_CASE("a file as other programs write it is read: spaces, any order, small types") {
  const std::string header = "{ \"b\" : {\"data_offsets\": [8, 12],\n\"shape\":[2],\t\"dtype\":\"BF16\"},\"a\":" + entry("F16", "[2,2]", "[0,8]") + "," +
                             "\"__metadata__\":{\"format\":\"pt\"},\"c\":" + entry("I8", "[1,2]", "[12,14]") + ",\"d\":" + entry("U32", "[1]", "[14,18]") +
                             "}   ";
  const std::string halves("\x00\x3c\x00\xc0\x01\x00\x00\x7c", 8), brains("\x80\x3f\x49\x40", 4), rest("\xff\x7f\xff\xff\xff\xff", 6);
  const SafeTensors file = parse_safetensors(file_of(header, halves + brains + rest), "x");
  CHECK(file.metadata == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(file.tensors.size() == 4);
  CHECK(file.tensors[0].first == "b");
  CHECK(equal(file.tensors[0].second, Tensor::of({1, 3.140625})));
  CHECK(equal(file.tensors[1].second, Tensor::of({{1, -2}, {0x1p-24, HUGE_VAL}})));
  CHECK(equal(file.tensors[2].second, Tensor::of({{-1, 127}}, DType::i64)));
  CHECK(equal(file.tensors[3].second, Tensor::of({4294967295.0}, DType::i64)));
  for (const char* dtype : {"U64", "F8_E4M3", "F8_E5M2", "f32", ""}) CHECK_THAT(fault(one(dtype, "[1]", "[0,8]"), eight), says("which is not read"));
  CHECK_THAT(fault(one("BOOL", "[2]", "[0,2]"), std::string("\1\2")), says("holds the byte 2 among its bools"));
}

TEST_CASE("the offsets of a safetensors file leave no hole, no overlap and nothing outside") {
  const auto two = [](const std::string& a, const std::string& b) { return R"({"a":)" + entry("F32", "[1]", a) + R"(,"b":)" + entry("F32", "[1]", b) + "}"; };
  CHECK(parse_safetensors(file_of(two("[4,8]", "[0,4]"), eight), "x").tensors.size() == 2);
  CHECK_THAT(fault(two("[0,4]", "[0,4]"), four), says("\"b\" begins at byte 0, where 4 is due") || says("\"a\" begins at byte 0, where 4 is due"));
  CHECK_THAT(fault(two("[0,4]", "[2,6]"), eight), says("begins at byte 2, where 4 is due"));
  CHECK_THAT(fault(two("[0,4]", "[5,9]"), eight), says("begins at byte 5, where 4 is due"));
  CHECK_THAT(fault(two("[4,8]", "[8,12]"), eight), says("begins at byte 4, where 0 is due"));
  CHECK_THAT(fault(two("[0,4]", "[4,8]"), four), says("take 8 bytes, but 4 follow"));
  CHECK_THAT(fault(two("[0,4]", "[4,8]"), eight + "x"), says("take 8 bytes, but 9 follow"));
  CHECK_THAT(fault(one("F32", "[1]", "[4,0]"), four), says("takes 4 bytes, not those from 4 to 0"));
  CHECK_THAT(fault(one("F32", "[2]", "[0,4]"), four), says("takes 8 bytes"));
  CHECK_THAT(fault(one("F32", "[2,0]", "[0,4]"), four), says("takes 0 bytes"));
  CHECK_THAT(fault("{}", "x"), says("take 0 bytes, but 1 follow"));
}

TEST_CASE("huge claims of a safetensors file are refused before memory is asked for") {
  for (const char* shape : {"[1000000000000]", "[4294967296,4294967296]", "[9223372036854775807]", "[9223372036854775808]", "[2,18446744073709551614]",
                            "[99999999999999999999999]", "[0,9223372036854775807,2]", "[9223372036854775807,0,2]"}) {
    INFO(shape);
    CHECK_THAT(fault(one("F64", shape, "[0,8]"), eight), says("is not a valid safetensors file"));
    CHECK_THAT(fault(one("F64", shape, "[0,0]"), ""), says("is not a valid safetensors file"));
  }
  for (const char* offsets : {"[0,9223372036854775807]", "[18446744073709551608,0]", "[0,18446744073709551616]"})
    CHECK_THAT(fault(one("F64", "[1]", offsets), eight), says("is not a valid safetensors file"));
  std::string length(8, '\xff');
  CHECK_THAT(fault(length + "{}"), says("more than 100 MB"));
  CHECK_THAT(fault(std::string("\x03\0\0\0\0\0\0\0{}", 10)), says("claims 3 bytes, more than the file has"));
  CHECK_THAT(fault(std::string("\x02\0\0", 3)), says("has 3 bytes, less than its length field"));
  CHECK_THAT(fault(one("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), four), says("more than 8 axes"));
  std::string axes = "[1";
  for (int i = 0; i < 100000; ++i) axes += ",1";
  CHECK_THAT(fault(one("F32", axes + "]", "[0,4]"), four), says("more than 8 axes"));
}

TEST_CASE("the header of a safetensors file is one flat JSON object with nothing unknown") {
  const std::string good = entry("F32", "[1]", "[0,4]");
  CHECK(parse_safetensors(file_of("{\"t\":" + good + "}", four), "x").tensors.size() == 1);
  std::string deep;
  for (int i = 0; i < 1000000; ++i) deep += "{\"a\":";
  for (const std::string& header : {std::string(),
                                    std::string("[]"),
                                    std::string("null"),
                                    std::string(" {}"),
                                    std::string("\xef\xbb\xbf{}"),
                                    std::string("{}{}"),
                                    std::string("{}\0", 3),
                                    std::string("{\"a\":1}"),
                                    std::string("{\"a\":\"b\"}"),
                                    std::string("{\"a\":[]}"),
                                    std::string("{\"a\":{}}"),
                                    deep,
                                    "[" + std::string(1000000, '['),
                                    "{\"a\":" + std::string(1000000, '['),
                                    "{\"t\":" + good + ",\"t\":" + good + "}",
                                    "{\"t\":" + good + ",}",
                                    "{\"t\":" + good + "} // end",
                                    "{'t':" + good + "}",
                                    "{\"\xff\":" + good + "}",
                                    "{\"\xc0\x80\":" + good + "}",
                                    "{\"\xed\xa0\x80\":" + good + "}",
                                    "{\"t\\ud800\":" + good + "}",
                                    std::string(R"({"t":{"dtype":"F32","shape":[1]}})"),
                                    std::string(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})"),
                                    std::string(R"({"t":{"shape":[1],"data_offsets":[0,4]}})"),
                                    std::string(R"({"t":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
                                    std::string(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})"),
                                    std::string(R"({"t":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})"),
                                    std::string(R"({"t":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})"),
                                    std::string(R"({"__metadata__":{"a":1}})"),
                                    std::string(R"({"__metadata__":{"a":{}}})"),
                                    std::string(R"({"__metadata__":{"a":"b","a":"b"}})"),
                                    std::string(R"({"__metadata__":[]})"),
                                    std::string(R"({"__metadata__":"text"})"),
                                    std::string(R"({"__metadata__":{},"__metadata__":{}})"),
                                    one("F32", "[-1]", "[0,4]"),
                                    one("F32", "[1.0]", "[0,4]"),
                                    one("F32", "[1e0]", "[0,4]"),
                                    one("F32", "[true]", "[0,4]"),
                                    one("F32", "[null]", "[0,4]"),
                                    one("F32", "[[1]]", "[0,4]"),
                                    one("F32", "[\"1\"]", "[0,4]"),
                                    one("F32", "1", "[0,4]"),
                                    one("F32", "{\"a\":1}", "[0,4]"),
                                    one("F32", "[1]", "[0]"),
                                    one("F32", "[1]", "[0,4,4]"),
                                    one("F32", "[1]", "[-0,4]"),
                                    one("F32", "[1]", "4"),
                                    one("F32", "[1]", "\"0,4\"")}) {
    INFO(header.substr(0, 100));
    CHECK_THAT(fault(header, four), says("[a.safetensors] is not a valid safetensors file"));
  }
}

TEST_CASE("a safetensors file cut anywhere is refused, and a damaged one is read or refused, never worse") {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  write_safetensors(path, {{"weight", Tensor::of({{1, 2, 3}, {4, 5, 6}})}, {"flags", Tensor::of({1, 0, 1}, DType::boolean)}, {"index", Tensor::arange(4)}},
                    {{"k", "v"}});
  const std::string good = contents(path);
  for (std::size_t length = 0; length < good.size(); ++length) CHECK_THROWS_AS(parse_safetensors(good.substr(0, length), "cut"), IoError);
  MemoryPool& pool = MemoryPool::instance();
  std::mt19937 random(3);
  int read = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string damaged = good;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      char& byte = damaged[random() % good.size()];
      byte = random() % 2 ? static_cast<char>(byte ^ (1 << random() % 8)) : "0123456789{}[],:\"\\\xff"[random() % 20];
    }
    if (random() % 4 == 0) damaged.insert(random() % damaged.size(), damaged.substr(random() % damaged.size(), random() % 20));
    pool.reset_peak();
    const std::int64_t before = pool.stats().live_bytes;
    try {
      (void)parse_safetensors(damaged, "damaged");
      ++read;
    } catch (const IoError&) {
    }
    // A byte of the file becomes at most eight (an element of I8 or U8); the pool rounds each of the few tensors up.
    REQUIRE(pool.stats().peak_bytes - before <= static_cast<std::int64_t>(8 * damaged.size()) + 3 * 256);
  }
  CHECK(read > 1000);
}
