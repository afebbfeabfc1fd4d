#include "tools/text.hpp"

#include <cstdlib>

#include "tests/catch.hpp"
#include "tests/tools/xml_check.hpp"
#include "tools/table_print.hpp"

using namespace gradus::tools;
using gradus::testing::parse_xml;

TEST_CASE("display width counts characters as they show") {
  CHECK(display_width("") == 0);
  CHECK(display_width("plain") == 5);
  CHECK(display_width("na\u00EFve \u03B2") == 7);
  CHECK(display_width("e\u0301") == 1);               // combining accent
  CHECK(display_width("\u4E2D\u6587") == 4);          // East Asian wide
  CHECK(display_width("\U0001F600") == 2);            // emoji
  CHECK(display_width("a\xFFz\xC3") == 4);            // malformed bytes show as one mark each
  CHECK(display_width("\xED\xA0\x80") == 3);          // a surrogate is malformed
  CHECK(display_width("\xC0\x80\xE0\x80\x80") == 5);  // so are forms that are too long
}

TEST_CASE("escaped text is XML whatever it was") {
  CHECK(escape_xml("a < b & \"c\" > 'd'") == "a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39;");
  CHECK(escape_xml("\u03B2\u4E2D") == "\u03B2\u4E2D");
  CHECK(escape_xml("x\x01\x1B[0m\xFF") == "x\uFFFD\uFFFD[0m\uFFFD");
  std::string every;
  for (int i = 0; i < 256; ++i) every += static_cast<char>(i);
  CHECK_NOTHROW(parse_xml("<a b=\"" + escape_xml(every) + "\">" + escape_xml(every) + "</a>"));
}

TEST_CASE("the XML check itself finds faults") {
  CHECK(parse_xml("<a x=\"1\"><b/>t&amp;u</a>").text == "t&u");
  for (const char* bad : {"", "<a>", "<a></b>", "<a><b></a></b>", "<a x=1/>", "<a x=\"1\" x=\"2\"/>", "<a>&nbsp;</a>", "<a>&</a>", "<a b=\"<\"/>", "<a/><b/>",
                          "<a>\x01</a>", "<a>\xFF</a>", "text", "<a x=\"1\"y=\"2\"/>"}) {
    INFO(bad);
    CHECK_THROWS(parse_xml(bad));
  }
}

TEST_CASE("cells of numbers are told from text") {
  for (const char* number : {"1", "-2.5", "+3e-7", "99.9 %", "12,345", "2.0x", "inf", "-inf", "nan", "-", "", "< 0.1", "4.59 +- 0.01"}) {
    INFO(number);
    CHECK(is_number_cell(number));
  }
  for (const char* text : {"a", "x", "e5", "1st", "f32", "4.59 (derived)", "yes", "%"}) {
    INFO(text);
    CHECK_FALSE(is_number_cell(text));
  }
}

TEST_CASE("tables align numbers to the right and text to the left, by shown width") {
  TablePrinter table({"name", "value", "note"});
  table.add_row({"\u4E2D\u6587", "1.5", "x"});
  table.add_row({"na\u00EFve", "-100", "12"});
  table.add_rule();
  table.add_row({"short"});
  CHECK(table.text(false) ==
        "name   value  note\n"
        "------------------\n"
        "\u4E2D\u6587     1.5  x\n"
        "na\u00EFve   -100  12\n"
        "------------------\n"
        "short\n");
  CHECK_THROWS(table.add_row({"1", "2", "3", "4"}));
}

TEST_CASE("colour is in the header only, and only when asked for") {
  TablePrinter table({"a"});
  table.add_row({"\x1B[31mred\n"});
  CHECK(table.text(true) == "\x1B[1ma\x1B[0m\n---------\n?[31mred?\n");
  CHECK(table.text(false).find('\x1B') == std::string::npos);
}

TEST_CASE("NO_COLOR and a pipe turn colour off") {
  ::setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(standard_output_has_colour());
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  CHECK_FALSE(standard_output_has_colour());
}
