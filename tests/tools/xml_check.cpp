#include "tests/tools/xml_check.hpp"

#include <algorithm>
#include <stdexcept>

#include "tools/text.hpp"

namespace gradus::testing {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  XmlElement document() {
    for (std::string_view rest = text_; !rest.empty();) {
      const std::string_view before = rest;
      const char32_t c = tools::next_character(rest);
      if (before.size() - rest.size() == 1 && c == tools::replacement_character) fail("malformed UTF-8");
      if (c < 0x20 && c != '\n' && c != '\t') fail("control character");
    }
    accept("<!DOCTYPE html>");
    skip_blanks();
    XmlElement root = element();
    skip_blanks();
    if (at_ != text_.size()) fail("text behind the root");
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw std::runtime_error(what + " at byte " + std::to_string(at_)); }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool accept(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  void expect(std::string_view what) {
    if (!accept(what)) fail("expected " + std::string(what));
  }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\t') ++at_;
  }

  std::string name() {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    if (!letter(peek())) fail("expected a name");
    const std::size_t begin = at_;
    while (letter(peek()) || peek() == '-' || peek() == ':' || (peek() >= '0' && peek() <= '9')) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string characters(std::string_view ends) {
    std::string out;
    while (at_ < text_.size() && ends.find(peek()) == std::string_view::npos) {
      if (peek() == '<') fail("bare <");
      if (peek() != '&') {
        out += text_[at_++];
        continue;
      }
      const std::pair<std::string_view, char> entities[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}};
      const auto* known = std::find_if(std::begin(entities), std::end(entities), [&](const auto& entity) { return accept(entity.first); });
      if (known == std::end(entities)) fail("bare &");
      out += known->second;
    }
    return out;
  }

  XmlElement element() {
    XmlElement e;
    expect("<");
    e.tag = name();
    for (;;) {
      const std::size_t before = at_;
      skip_blanks();
      if (accept("/>")) return e;
      if (accept(">")) break;
      if (before == at_) fail("attributes need a space between");
      std::string key = name();
      if (std::any_of(e.attributes.begin(), e.attributes.end(), [&](const auto& a) { return a.first == key; })) fail("attribute " + key + " twice");
      expect("=\"");
      e.attributes.emplace_back(std::move(key), characters("\""));
      expect("\"");
    }
    if (e.tag == "style") {  // not escaped in HTML; it must not look like a tag
      const std::size_t end = std::min(text_.find('<', at_), text_.size());
      e.text = text_.substr(at_, end - at_);
      at_ = end;
    }
    while (!accept("</")) {
      if (peek() == '\0') fail("<" + e.tag + "> never closes");
      if (peek() == '<') e.children.push_back(element());
      else e.text += characters("<");
    }
    expect(e.tag + ">");
    return e;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

XmlElement parse_xml(std::string_view text) { return Parser(text).document(); }

}  // namespace gradus::testing
