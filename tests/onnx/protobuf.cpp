#include "tests/onnx/protobuf.hpp"

#include <bit>
#include <type_traits>

#include "engine/io/bytes.hpp"

namespace gradus::onnx {

bool Message::next() {
  if (bytes_.empty()) return false;
  const std::uint64_t key = raw_varint();
  const auto wire = static_cast<unsigned>(key & 7U);
  if (key >> 3U == 0 || key >> 3U >= 1U << 29U) throw Malformed("a field number out of range");
  if (wire != 0 && wire != 1 && wire != 2 && wire != 5) throw Malformed("an unknown wire type");
  field_ = static_cast<std::uint32_t>(key >> 3U);
  wire_ = static_cast<Wire>(wire);
  return true;
}

void Message::expect(Wire wire) const {
  if (wire_ != wire) throw Malformed("field " + std::to_string(field_) + " has another wire type");
}

std::uint64_t Message::varint() {
  expect(Wire::varint);
  return raw_varint();
}
float Message::number() {
  expect(Wire::fixed32);
  return raw_fixed<float>();
}
double Message::wide_number() {
  expect(Wire::fixed64);
  return raw_fixed<double>();
}
std::string_view Message::bytes() {
  expect(Wire::bytes);
  return take(raw_varint());
}

void Message::skip() {
  switch (wire_) {
    case Wire::varint: (void)raw_varint(); break;
    case Wire::fixed64: (void)take(8); break;
    case Wire::bytes: (void)take(raw_varint()); break;
    case Wire::fixed32: (void)take(4); break;
  }
}

std::uint64_t Message::raw_varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    if (shift == 63 && byte > 1) throw Malformed("a number beyond 64 bits");
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return value;
  }
  throw Malformed("a number of more than ten bytes");
}

template <class T>
T Message::raw_fixed() {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<T>(io::get_little<Bits>(take(sizeof(T)), 0));
}
template float Message::raw_fixed<float>();
template double Message::raw_fixed<double>();

std::string_view Message::take(std::size_t count) {
  if (count > bytes_.size()) throw Malformed("the message ends too early");
  const std::string_view taken = bytes_.substr(0, count);
  bytes_.remove_prefix(count);
  return taken;
}

}  // namespace gradus::onnx
