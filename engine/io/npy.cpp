#include "engine/io/npy.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>

#include "engine/core/error.hpp"
#include "engine/io/file.hpp"

namespace gradus::io {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

/// What the header says.
struct Header {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

/// Parses the header, a Python dict literal with exactly the keys descr, fortran_order and shape. Nothing else of Python
/// is understood.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Header parse() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<Shape> shape;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) descr = descr_value();
      else if (key == "fortran_order" && !fortran_order) fortran_order = boolean();
      else if (key == "shape" && !shape) shape = tuple();
      else fail(cat("unexpected key ", excerpt(key)));
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) fail("text behind the dict");
    if (!descr || !fortran_order || !shape) fail("descr, fortran_order or shape is missing");
    return {*descr, *fortran_order, *shape};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw IoError(where_, cat("is not a valid npy file: header byte ", at_, ": ", what)); }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  bool accept(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(cat("expected '", c, "'"));
  }

  std::string string() {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a string");
    const std::size_t begin = at_ + 1, end = text_.find(quote, begin);
    if (end == std::string_view::npos) fail("a string that never ends");
    at_ = end + 1;
    return std::string(text_.substr(begin, end - begin));
  }

  std::string descr_value() {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[') throw IoError(where_, "holds records with named fields, which are not read");
    return string();
  }

  bool boolean() {
    skip_blanks();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    fail("expected True or False");
  }

  index_t integer() {
    skip_blanks();
    const std::size_t begin = at_;
    index_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value)) fail("a size beyond 64 bits");
    if (at_ == begin) fail("expected a size");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // written by Python 2
    return value;
  }

  Shape tuple() {
    Shape shape;
    bool comma = true;
    expect('(');
    while (!accept(')')) {
      if (!comma) fail("expected ',' or ')'");
      if (shape.rank() == max_rank) throw IoError(where_, cat("has more than ", max_rank, " axes"));
      shape.push_back(integer());
      comma = accept(',');
    }
    if (shape.rank() == 1 && !comma) fail("a shape of one size ends in a comma");
    return shape;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
};

/// How elements lie in the file and what they become.
struct Element {
  char kind = 'f';  // f, i, u, b as in NumPy
  std::size_t size = 8;
  bool swap = false;
  DType dtype = DType::f64;
};

Element element_of(const std::string& descr, const std::string& where) {
  const auto fail = [&]() -> Element {
    throw IoError(where, cat("holds elements of type ", excerpt(descr), ", which are not read"), "f2, f4, f8, i1 to i8, u1 to u4 and b1 are");
  };
  if (descr.size() != 3) return fail();
  const char order = descr[0];
  const std::string_view type = std::string_view(descr).substr(1);
  constexpr std::string_view known[] = {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "b1"};
  if (std::find(std::begin(known), std::end(known), type) == std::end(known)) return fail();
  Element element;
  element.kind = type[0];
  element.size = static_cast<std::size_t>(type[1] - '0');
  if (std::string_view(element.size == 1 ? "|<>=" : "<>=").find(order) == std::string_view::npos) return fail();
  constexpr bool little = std::endian::native == std::endian::little;
  element.swap = element.size > 1 && order == (little ? '>' : '<');
  if (element.kind == 'f') element.dtype = element.size == 8 ? DType::f64 : DType::f32;
  else element.dtype = element.kind == 'b' ? DType::boolean : DType::i64;
  return element;
}

/// IEEE half to single precision; every half is a float.
float from_half(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U, exponent = (half >> 10U) & 31U, fraction = half & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13U));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
  const float subnormal = static_cast<float>(fraction) * 0x1p-24F;
  return sign ? -subnormal : subnormal;
}

template <class T>
T load(const char* from, bool swap) {
  char raw[sizeof(T)];
  std::memcpy(raw, from, sizeof(T));
  if (swap) std::reverse(raw, raw + sizeof(T));
  return std::bit_cast<T>(raw);
}

/// Calls `place(source_index)` for every element of the row-major result in order, when the source is column-major.
template <class F>
void for_each_fortran(const Shape& shape, index_t count, F&& place) {
  if (count == 0) return;  // the other sizes may then have a product beyond 64 bits
  Dims index = Dims::filled(shape.rank(), 0), stride = Dims::filled(shape.rank(), 1);
  for (int axis = 1; axis < shape.rank(); ++axis) stride[axis] = stride[axis - 1] * shape[axis - 1];
  index_t source = 0;
  for (index_t i = 0; i < count; ++i) {
    place(source);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      source += stride[axis];
      if (++index[axis] < shape[axis]) break;
      source -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

/// Converts every element from its type in the file, Stored, to To.
template <class Stored, class To, class Convert>
void convert(std::string_view data, const Header& header, const Element& element, std::vector<std::byte>& out, Convert&& to) {
  std::byte* next = out.data();
  const auto place = [&](index_t source) {
    const To value = to(load<Stored>(data.data() + static_cast<std::size_t>(source) * sizeof(Stored), element.swap));
    std::memcpy(next, &value, sizeof(To));
    next += sizeof(To);
  };
  const auto count = static_cast<index_t>(data.size() / sizeof(Stored));
  if (header.fortran_order && header.shape.rank() > 1) return for_each_fortran(header.shape, count, place);
  for (index_t i = 0; i < count; ++i) place(i);
}

void convert_elements(std::string_view data, const Header& header, const Element& element, std::vector<std::byte>& out, const std::string& where) {
  const auto same = [](auto value) { return value; };
  const auto widen = [](auto value) { return static_cast<index_t>(value); };
  const auto truth = [&](std::uint8_t value) {
    if (value > 1) throw IoError(where, cat("holds the byte ", int{value}, " among its bools"));
    return value;
  };
  switch (element.kind) {
    case 'b': return convert<std::uint8_t, std::uint8_t>(data, header, element, out, truth);
    case 'f':
      if (element.size == 8) return convert<std::uint64_t, std::uint64_t>(data, header, element, out, same);  // bits: a NaN keeps its payload
      if (element.size == 4) return convert<std::uint32_t, std::uint32_t>(data, header, element, out, same);
      return convert<std::uint16_t, float>(data, header, element, out, from_half);
    case 'u':
      if (element.size == 4) return convert<std::uint32_t, index_t>(data, header, element, out, widen);
      if (element.size == 2) return convert<std::uint16_t, index_t>(data, header, element, out, widen);
      return convert<std::uint8_t, index_t>(data, header, element, out, widen);
    default:
      if (element.size == 8) return convert<std::int64_t, index_t>(data, header, element, out, same);
      if (element.size == 4) return convert<std::int32_t, index_t>(data, header, element, out, widen);
      if (element.size == 2) return convert<std::int16_t, index_t>(data, header, element, out, widen);
      return convert<std::int8_t, index_t>(data, header, element, out, widen);
  }
}

/// Splits the file into header text and data, by the lengths it states.
std::string_view header_text(std::string_view file, std::string_view& data, const std::string& where) {
  const auto fail = [&](const char* what) { throw IoError(where, cat("is not a valid npy file: ", what)); };
  if (!is_npy(file)) fail("it does not begin with \\x93NUMPY");
  if (file.size() < 10) fail("it was cut short");
  const int major = static_cast<unsigned char>(file[6]), minor = static_cast<unsigned char>(file[7]);
  if (major < 1 || major > 3 || minor != 0) throw IoError(where, cat("is npy version ", major, ".", minor, "; versions 1.0, 2.0 and 3.0 are read"));
  const std::size_t width = major == 1 ? 2 : 4, start = 8 + width;
  if (file.size() < start) fail("it was cut short");
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i) length |= static_cast<std::size_t>(static_cast<unsigned char>(file[8 + i])) << (8 * i);
  if (length > file.size() - start) fail("its header is longer than the file");
  if (length == 0 || file[start + length - 1] != '\n') fail("its header does not end in a new line");
  data = file.substr(start + length);
  return file.substr(start, length);
}

/// True when the data have exactly the size the shape asks for. No product of sizes is trusted before this.
bool size_matches(const Shape& shape, std::size_t element_size, std::size_t data_size) {
  std::size_t need = element_size;
  const bool none = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (const index_t size : shape)
    if (!none && __builtin_mul_overflow(need, static_cast<std::size_t>(size), &need)) return false;
  return (none ? 0 : need) == data_size;
}

}  // namespace

bool is_npy(std::string_view bytes) noexcept { return bytes.starts_with(magic); }

NpyArray parse_npy(std::string_view file, const std::string& where) {
  std::string_view data;
  const Header header = HeaderParser(header_text(file, data, where), where).parse();
  const Element element = element_of(header.descr, where);
  if (!size_matches(header.shape, element.size, data.size()))
    throw IoError(where, cat("announces shape ", header.shape, " of ", header.descr, ", but ", data.size(), " bytes of data follow"),
                  "the file is cut short or damaged");
  NpyArray array{header.shape, element.dtype, {}};
  try {
    array.bytes.resize(static_cast<std::size_t>(byte_size(array.shape, array.dtype)));
  } catch (const std::exception&) {  // bad_alloc, length_error, or an overflow by widening
    throw IoError(where, cat("shape ", array.shape, " of ", name_of(array.dtype), " does not fit in memory"));
  }
  convert_elements(data, header, element, array.bytes, where);
  return array;
}

NpyArray read_npy(const std::string& path) { return parse_npy(read_file(path), path); }

std::string format_npy(const Shape& shape, DType dtype, std::span<const std::byte> data) {
  if (static_cast<index_t>(data.size()) != byte_size(shape, dtype))
    throw ValueError("format_npy", cat("shape ", shape, " of ", name_of(dtype), " does not take ", data.size(), " bytes"));
  constexpr bool little = std::endian::native == std::endian::little;
  std::string descr = dtype == DType::f32 ? "f4" : dtype == DType::f64 ? "f8" : dtype == DType::i64 ? "i8" : "b1";
  descr = (dtype == DType::boolean ? "|" : little ? "<" : ">") + descr;
  std::string header = cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }");
  constexpr std::size_t prefix = 10, alignment = 64;
  const std::size_t end = prefix + header.size() + 1;
  header.append((alignment - end % alignment) % alignment, ' ');
  header += '\n';
  std::string file(magic);
  file += {'\x01', '\x00', static_cast<char>(header.size() & 255U), static_cast<char>(header.size() >> 8U)};
  file += header;
  file.append(reinterpret_cast<const char*>(data.data()), data.size());
  return file;
}

}  // namespace gradus::io
