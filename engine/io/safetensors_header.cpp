#include "engine/io/safetensors_header.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/error.hpp"
#include "engine/io/file.hpp"

namespace gradus::io {
namespace {

using nlohmann::json;

struct NamedElement {
  std::string_view name;
  Element element;
};

constexpr NamedElement known_elements[] = {
    {"F64", {ElementKind::floating, 8}}, {"F32", {ElementKind::floating, 4}}, {"F16", {ElementKind::floating, 2}}, {"BF16", {ElementKind::brain_floating, 2}},
    {"I64", {ElementKind::integer, 8}},  {"I32", {ElementKind::integer, 4}},  {"I16", {ElementKind::integer, 2}},  {"I8", {ElementKind::integer, 1}},
    {"U32", {ElementKind::natural, 4}},  {"U16", {ElementKind::natural, 2}},  {"U8", {ElementKind::natural, 1}},   {"BOOL", {ElementKind::boolean, 1}},
};

/// Receives the events of the JSON parser and accepts exactly {"NAME": {"dtype": ..., "shape": [...], "data_offsets": [b, e]}} and
/// the metadata's {"KEY": "text"}. No tree is built: repeated keys are seen, and nesting ends at the third level.
class HeaderHandler : public nlohmann::json_sax<json> {
 public:
  HeaderHandler(SafeTensorsHeader& header, const std::string& where) : header_(header), where_(where) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a bool"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a number that is no 64-bit integer"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::list) return unexpected("a number");
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<index_t>::max())) return unexpected("a number beyond 63 bits");
    if (key_ == "shape" && numbers_.size() == static_cast<std::size_t>(max_rank))
      throw IoError(where_, cat("tensor ", excerpt(entry_.name), " has more than ", max_rank, " axes"));
    if (key_ != "shape" && numbers_.size() == 2) return unexpected("a third offset");
    numbers_.push_back(static_cast<index_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      header_.metadata[key_] = value;
      return true;
    }
    if (place_ != Place::tensor || key_ != "dtype") return unexpected("a text");
    const auto* known = std::find_if(std::begin(known_elements), std::end(known_elements), [&](const NamedElement& e) { return e.name == value; });
    if (known == std::end(known_elements))
      throw IoError(where_, cat("tensor ", excerpt(entry_.name), " is of type ", excerpt(value), ", which is not read"),
                    "F16, BF16, F32, F64, I8 to I64, U8 to U32 and BOOL are");
    entry_.element = known->element;
    return true;
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::outside: place_ = Place::root; return true;
      case Place::root:
        place_ = key_ == metadata_key ? Place::metadata : Place::tensor;
        entry_ = {};
        entry_.name = key_;
        fields_.clear();
        return true;
      default: return unexpected("an object");
    }
  }

  bool key(string_t& value) override {
    auto& seen = place_ == Place::root ? names_ : fields_;
    if (!seen.insert(value).second) fail(cat("the key ", excerpt(value), " is repeated"));
    if (place_ == Place::tensor && value != "dtype" && value != "shape" && value != "data_offsets")
      fail(cat("tensor ", excerpt(entry_.name), " has the unknown field ", excerpt(value)));
    key_ = value;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      if (fields_.size() != 3) fail(cat("tensor ", excerpt(entry_.name), " lacks dtype, shape or data_offsets"));
      header_.entries.push_back(entry_);
    }
    place_ = place_ == Place::root ? Place::outside : Place::root;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || key_ == "dtype") return unexpected("a list");
    place_ = Place::list;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    if (key_ == "shape") {
      entry_.shape = Shape(std::span<const index_t>(numbers_));
      return true;
    }
    if (numbers_.size() != 2) fail(cat("tensor ", excerpt(entry_.name), " has ", numbers_.size(), " offsets, not 2"));
    entry_.begin = static_cast<std::size_t>(numbers_[0]);
    entry_.end = static_cast<std::size_t>(numbers_[1]);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(cat("its header is no JSON in UTF-8: error at byte ", position));
  }

 private:
  enum class Place : std::uint8_t { outside, root, metadata, tensor, list };

  [[noreturn]] void fail(const std::string& what) const { throw IoError(where_, "is not a valid safetensors file: " + what); }
  [[noreturn]] bool unexpected(const char* what) const {
    fail(cat("its header has ", what, place_ == Place::outside ? "" : cat(" at key ", excerpt(key_)), " where none belongs"));
  }

  SafeTensorsHeader& header_;
  const std::string& where_;
  Place place_ = Place::outside;
  SafeTensorsEntry entry_;
  std::string key_;
  std::set<std::string> names_, fields_;
  std::vector<index_t> numbers_;
};

/// The tensors, in the order of their bytes, must follow each other from 0 to the end without holes.
void require_shared_out(const std::vector<SafeTensorsEntry>& entries, std::size_t data_size, const std::string& where) {
  const auto fail = [&](const std::string& what) { throw IoError(where, "is not a valid safetensors file: " + what); };
  std::vector<const SafeTensorsEntry*> order;
  for (const SafeTensorsEntry& entry : entries) {
    std::size_t need = 0;
    Shape nonzero = entry.shape;  // empty tensors have strides, too
    std::replace(&nonzero[0], &nonzero[0] + nonzero.rank(), index_t{0}, index_t{1});
    if (!stored_size(nonzero, sizeof(index_t), need) || need > static_cast<std::size_t>(std::numeric_limits<index_t>::max()))
      fail(cat("tensor ", excerpt(entry.name), " has shape ", entry.shape, ", beyond 64 bits"));
    (void)stored_size(entry.shape, entry.element.size, need);
    if (entry.end < entry.begin || entry.end - entry.begin != need)
      fail(cat("tensor ", excerpt(entry.name), " of shape ", entry.shape, " takes ", need, " bytes, not those from ", entry.begin, " to ", entry.end));
    order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->begin != b->begin ? a->begin < b->begin : a->end < b->end; });
  std::size_t at = 0;
  for (const SafeTensorsEntry* entry : order) {
    if (entry->begin != at) fail(cat("tensor ", excerpt(entry->name), " begins at byte ", entry->begin, ", where ", at, " is due"));
    at = entry->end;
  }
  if (at != data_size) fail(cat("its tensors take ", at, " bytes, but ", data_size, " follow the header"));
}

}  // namespace

SafeTensorsHeader parse_safetensors_header(std::string_view text, std::size_t data_size, const std::string& where) {
  // The JSON parser takes a zero byte for the end, and skips a byte order mark.
  if (!text.starts_with('{') || text.find('\0') != std::string_view::npos)
    throw IoError(where, "is not a valid safetensors file: its header is no JSON object");
  SafeTensorsHeader header;
  HeaderHandler handler(header, where);
  (void)json::sax_parse(text.begin(), text.end(), &handler);
  require_shared_out(header.entries, data_size, where);
  return header;
}

}  // namespace gradus::io
