#pragma once
// The wire format of protocol buffers, read strictly: https://protobuf.dev/programming-guides/encoding

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gradus::onnx {

/// Bytes that are no valid message.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Walks over the fields of one message. Reading a field as another type than it has, or past the end, is Malformed.
class Message {
 public:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  /// Moves to the next field; false at the end. The field before must have been read or skipped.
  [[nodiscard]] bool next();
  [[nodiscard]] std::uint32_t field() const noexcept { return field_; }
  /// True for a field of bytes, a text, a message or a packed list.
  [[nodiscard]] bool is_bytes() const noexcept { return wire_ == Wire::bytes; }

  [[nodiscard]] std::uint64_t varint();
  [[nodiscard]] std::int64_t integer() { return static_cast<std::int64_t>(varint()); }
  [[nodiscard]] float number();
  [[nodiscard]] double wide_number();
  [[nodiscard]] std::string_view bytes();
  [[nodiscard]] std::string text() { return std::string(bytes()); }
  [[nodiscard]] Message message() { return Message(bytes()); }
  void skip();

  /// Calls f(value) for each value of a repeated number field, packed or not.
  template <class F>
  void integers(F&& f) {
    if (!is_bytes()) return f(integer());
    Message packed(bytes());
    while (!packed.bytes_.empty()) f(static_cast<std::int64_t>(packed.raw_varint()));
  }
  template <class F>
  void numbers(F&& f) {
    if (!is_bytes()) return f(number());
    Message packed(bytes());
    while (!packed.bytes_.empty()) f(packed.raw_fixed<float>());
  }
  template <class F>
  void wide_numbers(F&& f) {
    if (!is_bytes()) return f(wide_number());
    Message packed(bytes());
    while (!packed.bytes_.empty()) f(packed.raw_fixed<double>());
  }

 private:
  enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  void expect(Wire wire) const;
  std::uint64_t raw_varint();
  template <class T>
  T raw_fixed();
  std::string_view take(std::size_t count);

  std::string_view bytes_;
  std::uint32_t field_ = 0;
  Wire wire_ = Wire::varint;
};

}  // namespace gradus::onnx
