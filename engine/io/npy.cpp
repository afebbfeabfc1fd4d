#include "engine/io/npy.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <optional>

#include "engine/core/error.hpp"
#include "engine/io/elements.hpp"
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
  element.kind = type[0] == 'f' ? ElementKind::floating : type[0] == 'i' ? ElementKind::integer : type[0] == 'u' ? ElementKind::natural : ElementKind::boolean;
  element.size = static_cast<std::size_t>(type[1] - '0');
  if (std::string_view(element.size == 1 ? "|<>=" : "<>=").find(order) == std::string_view::npos) return fail();
  constexpr bool little = std::endian::native == std::endian::little;
  element.swap = element.size > 1 && order == (little ? '>' : '<');
  return element;
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

}  // namespace

bool is_npy(std::string_view bytes) noexcept { return bytes.starts_with(magic); }

NpyArray parse_npy(std::string_view file, const std::string& where) {
  std::string_view data;
  const Header header = HeaderParser(header_text(file, data, where), where).parse();
  const Element element = element_of(header.descr, where);
  std::size_t need = 0;
  if (!stored_size(header.shape, element.size, need) || need != data.size())
    throw IoError(where, cat("announces shape ", header.shape, " of ", header.descr, ", but ", data.size(), " bytes of data follow"),
                  "the file is cut short or damaged");
  NpyArray array{header.shape, element.dtype(), {}};
  try {
    array.bytes.resize(static_cast<std::size_t>(byte_size(array.shape, array.dtype)));
  } catch (const std::exception&) {  // bad_alloc, length_error, or an overflow by widening
    throw IoError(where, cat("shape ", array.shape, " of ", name_of(array.dtype), " does not fit in memory"));
  }
  convert_elements(data, element, array.bytes.data(), where, header.fortran_order ? &array.shape : nullptr);
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
