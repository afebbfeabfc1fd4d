#include "engine/io/table.hpp"

#include <algorithm>
#include <clocale>

#include "tests/io/data.hpp"

using namespace gradus;
using namespace gradus::io;
using namespace gradus::testing;

namespace {

Table parse(std::string_view text, const TableOptions& options = {}) { return parse_table(text, "t.csv", options); }
std::string fault(std::string_view text, const TableOptions& options = {}) {
  return io_error([&] { (void)parse(text, options); });
}
TableOptions with_label(std::string name) {
  TableOptions options;
  options.label = std::move(name);
  return options;
}
using Numbers = std::vector<double>;
using Names = std::vector<std::string>;
using Labels = std::vector<index_t>;

}  // namespace

TEST_CASE("each delimiter is recognised") {
  for (const char* text : {"1,2.5\n3,4\n", "1;2.5\n3;4\n", "1\t2.5\n3\t4\n", "1 2.5\n3 4\n", "  1   2.5 \n3\t 4\n", "1, 2.5\n3,\t4\n"}) {
    INFO(text);
    const Table table = parse(text);
    CHECK(table.rows == 2);
    CHECK(table.columns == 2);
    CHECK(table.values == Numbers{1, 2.5, 3, 4});
    CHECK_FALSE(table.has_header);
    CHECK(table.labels.empty());
  }
}

TEST_CASE("irregular punctuation does not hide the delimiter") {
  CHECK(parse("a;note, long\n1;2\n3;4\n").names == Names{"a", "note, long"});
  CHECK(parse("# 1;2;3\n# 4\n1,2\n3,4\n").columns == 2);
  CHECK(parse("1 2 red;blue\n3 4 green\n5 6 red\n7 8 blue\n").classes == Names{"red;blue", "green", "red", "blue"});
}

TEST_CASE("a delimiter can be forced") {
  TableOptions options;
  options.delimiter = ';';
  CHECK(parse("1;2\n", options).columns == 2);
  options.delimiter = ',';
  CHECK_THAT(fault("1;2\n", options), says("no number columns"));
}

TEST_CASE("line ends, byte order mark, blank lines and comments do not matter") {
  const Numbers expected{1, 2, 3, 4};
  CHECK(parse("1,2\r\n3,4\r\n").values == expected);
  CHECK(parse("1,2\n3,4").values == expected);
  CHECK(parse("1,2\r\n3,4\r").values == expected);
  CHECK(parse("\xEF\xBB\xBF"
              "1,2\n3,4\n")
            .values == expected);
  CHECK(parse("1,2\n\n3,4\n\n  \n\t\n").values == expected);
  CHECK(parse("# a comment, with commas\n1,2\n  # another\n3,4\n#").values == expected);
  CHECK(parse("1 2\r\n3 4 \r\n").values == expected);
}

TEST_CASE("numbers are read in the C locale in all usual spellings") {
  const char* before = std::setlocale(LC_ALL, "de_DE.UTF-8");
  CHECK(parse("1e5,+3,-0.5,.5,5.,1.388261e+000, 7 ,\"8\"\n").values == Numbers{1e5, 3, -0.5, 0.5, 5, 1.388261, 7, 8});
  CHECK(parse("0.1\n1e-310\n").values == Numbers{0.1, 1e-310});
  if (before) std::setlocale(LC_ALL, "C");
}

TEST_CASE("a header is recognised by text above numbers") {
  const Table table = parse("width,\"height, cm\"\n1,2\n3,4\n");
  CHECK(table.has_header);
  CHECK(table.names == Names{"width", "height, cm"});
  CHECK(table.rows == 2);
  CHECK(parse("0,1,target\n5,6,1\n7,8,0\n").names == Names{"0", "1"});
  CHECK(parse("x y\n1 2\n").names == Names{"x", "y"});
}

TEST_CASE("a header can be forced or denied") {
  TableOptions options;
  options.header = TableOptions::Header::yes;
  CHECK(parse("1,2\n3,4\n", options).values == Numbers{3, 4});
  CHECK(parse("1,2\n3,4\n", options).names == Names{"1", "2"});
  options.header = TableOptions::Header::no;
  CHECK_THAT(fault("x,y\n1,2\n", options), says("no number columns") || says("line 1, column 1"));
}

TEST_CASE("one wrong value in the first line is an error, not a header") {
  CHECK_THAT(fault("5.1,abc,1.5\n4.9,3.0,1.4\n"), says("line 1, column 2 is not a number: \"abc\""));
}

TEST_CASE("a text column at either end is the label") {
  const Table last = parse("5.1,3.5,setosa\n4.9,3.0,virginica\n4.7,3.2,setosa\n");
  CHECK_FALSE(last.has_header);
  CHECK(last.columns == 2);
  CHECK(last.classes == Names{"setosa", "virginica"});
  CHECK(last.labels == Labels{0, 1, 0});
  const Table first = parse("kind;a;b\nx;1;2\ny;3;4\n");
  CHECK(first.values == Numbers{1, 2, 3, 4});
  CHECK(first.classes == Names{"x", "y"});
  CHECK(first.names == Names{"a", "b"});
  CHECK(first.label_name == "kind");
}

TEST_CASE("a header name marks the label column even when it holds numbers") {
  const Table table = parse("a,Class,b\n1,7,2\n3,9,4\n5,7,6\n");
  CHECK(table.values == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(table.label_name == "Class");
  CHECK(table.names == Names{"a", "b"});
  CHECK(table.classes == Names{"7", "9"});
  CHECK(table.labels == Labels{0, 1, 0});
}

TEST_CASE("a label column can be named, numbered or denied") {
  const std::string text = "a,target,b\n1,7,2\n3,9,4\n";
  CHECK(parse(text, with_label("b")).values == Numbers{1, 7, 3, 9});
  CHECK(parse(text, with_label("1")).values == Numbers{7, 2, 9, 4});
  CHECK(parse(text, with_label("first")).label_name == "a");
  CHECK(parse(text, with_label("last")).label_name == "b");
  CHECK(parse(text, with_label("none")).columns == 3);
  CHECK(parse("1,2\n3,4\n", with_label("2")).values == Numbers{1, 3});
  CHECK_THAT(message_of<ValueError>([&] { (void)parse(text, with_label("targte")); }), says("did you mean 'target'"));
  CHECK_THAT(message_of<ValueError>([&] { (void)parse(text, with_label("4")); }), says("there are 3 columns"));
  CHECK_THAT(message_of<ValueError>([&] { (void)parse(text, with_label("0")); }), says("count from 1"));
  CHECK_THAT(message_of<ValueError>([&] { (void)parse("1,2\n", with_label("kind")); }), says("no header"));
}

TEST_CASE("quotes protect delimiters, line ends and quotes") {
  const Table table = parse("\"a \"\"b\"\"\",\"two\nlines\",kind\n1,2,\"x, y\"\n3,4,\"p\"\"q\"\n5,6,\" z\"\n");
  CHECK(table.names == Names{"a \"b\"", "two\nlines"});
  CHECK(table.values == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(table.classes == Names{"x, y", "p\"q", " z"});
  CHECK(parse("\"1 \" 2 \"a b\"\n3 4 c\n").classes == Names{"a b", "c"});
  CHECK_THAT(fault("\"two\nlines\",x\n1,2\n1,b\n"), says("line 4, column 2 (\"x\")"));
  CHECK_THAT(fault("1,\"2\n3,4\n"), says("line 1 opens a quote that never closes"));
  CHECK_THAT(fault("1,2\n3,\"4\"5\n"), says("line 2 has text behind the closing quote of column 2"));
}

TEST_CASE("the header of scikit-learn's own files gives rows, columns and class names") {
  const Table table = parse("3,2,red,green\n1,2,1\n3,4,0\n5,6,1\n");
  CHECK(table.rows == 3);
  CHECK(table.columns == 2);
  CHECK(table.classes == Names{"red", "green"});
  CHECK(table.labels == Labels{1, 0, 1});
  CHECK(table.names.empty());
  CHECK(parse("3,2,red,green\n1,2,1\n3,4,0\n5,6,1\n", with_label("none")).columns == 3);
  CHECK_THAT(fault("4,2,red,green\n1,2,1\n3,4,0\n5,6,1\n"), says("announces \"4\" rows and has 3"));
}

TEST_CASE("every fault of a table is named by line and column") {
  CHECK_THAT(fault("1,2,3,4\n1,2,3\n"), says("[t.csv] line 2 has 3 columns, the first (line 1) had 4"));
  CHECK_THAT(fault("a,b\n\n# note\n1,2\n1,2,3\n"), says("line 5 has 3 columns, the first (line 1) had 2"));
  CHECK_THAT(fault("1 2\n3\n"), says("line 2 has 1 columns, the first (line 1) had 2"));
  CHECK_THAT(fault("a,b\n1,2\n3,x\n"), says("line 3, column 2 (\"b\") is not a number: \"x\""));
  CHECK_THAT(fault("1,2\n3,4x\n"), says("line 2, column 2 is not a number: \"4x\""));
  CHECK_THAT(fault("1,2\n3,0x10\n"), says("line 2, column 2 is not a number"));
  CHECK_THAT(fault("1,2\n3,+-4\n"), says("line 2, column 2 is not a number"));
  CHECK_THAT(fault("a;b\n1;2\n3;4,5\n"), says("decimals are written with a point"));
  CHECK_THAT(fault("1,2\n3,NaN\n"), says("line 2, column 2 is NaN"));
  CHECK_THAT(fault("1,nan\n3,4\n"), says("line 1, column 2 is NaN"));
  CHECK_THAT(fault("1,2\n-inf,4\n"), says("line 2, column 1 is infinite"));
  CHECK_THAT(fault("1,2\nInfinity,4\n"), says("line 2, column 1 is infinite"));
  CHECK_THAT(fault("1,2\n3,1e999\n"), says("line 2, column 2 is outside the range of f64"));
  CHECK_THAT(fault("1,2\n3,\n"), says("line 2, column 2 has no value"));
  CHECK_THAT(fault("1,NA\n3,4\n"), says("line 1, column 2 has no value: \"NA\""));
  CHECK_THAT(fault("1,2,\n3,4,\n"), says("line 1, column 3 has no value"));
}

TEST_CASE("a table without rows or number columns is an error") {
  CHECK_THAT(fault(""), says("has no rows"));
  CHECK_THAT(fault("\n \n# only a comment\n"), says("has no rows"));
  CHECK_THAT(fault("red\nblue\n"), says("has no number columns"));
  CHECK_THAT(fault("1\n2\n", with_label("1")), says("has no number columns"));
  TableOptions header;
  header.header = TableOptions::Header::yes;
  CHECK_THAT(fault("a,b\n", header), says("a header line and no rows below it"));
  CHECK_THAT(fault(std::string_view("\x93NUMPY\x01\0v\0", 10)), says("binary data"));
}

TEST_CASE("damaged text is read or refused, never worse") {
  const std::string text = "a,\"b \"\"q\"\"\",kind\r\n1.5,2e3,\"x, y\"\r\n-3,+4,z\r\n# note\r\n5;6\t7\n";
  const std::string bytes = "\",;\t \n\r#\0x9-";
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char byte : bytes) {
      std::string damaged = text;
      damaged[at] = byte;
      for (const std::string& input : {damaged, text.substr(0, at) + byte}) {
        try {
          const Table table = parse(input);
          CHECK(table.values.size() == static_cast<std::size_t>(table.rows * table.columns));
          CHECK((table.labels.empty() || static_cast<index_t>(table.labels.size()) == table.rows));
        } catch (const IoError&) {
        }
      }
    }
  }
}

TEST_CASE("the shared point sets are read with their shapes") {
  const std::string folder = shared_data("clustering");
  if (folder.empty()) return;
  struct Expected {
    const char* file;
    index_t rows, columns;
  };
  const Expected sets[] = {{"fcps/atom", 800, 3},   {"fcps/chainlink", 1000, 3}, {"fcps/engytime", 4096, 2},   {"fcps/hepta", 212, 3},    {"fcps/lsun", 400, 2},
                           {"fcps/target", 770, 2}, {"fcps/tetra", 400, 3},      {"fcps/twodiamonds", 800, 2}, {"fcps/wingnut", 1016, 2}, {"sipu/s1", 5000, 2},
                           {"sipu/s4", 5000, 2},    {"sipu/r15", 600, 2},        {"sipu/aggregation", 788, 2}};
  for (const Expected& set : sets) {
    INFO(set.file);
    const Table points = read_table(folder + "/" + set.file + ".data.gz");
    CHECK(points.rows == set.rows);
    CHECK(points.columns == set.columns);
    CHECK_FALSE(points.has_header);
    CHECK(points.labels.empty());
    CHECK(read_table(folder + "/" + set.file + ".labels0.gz").rows == set.rows);
  }
  CHECK(read_table(folder + "/sipu/s1.data.gz").values[1] == 550946);
}

TEST_CASE("the tables of scikit-learn are read with their labels") {
  const std::string folder = shared_data("sklearn-toy");
  if (folder.empty()) return;
  const Table iris = read_table(folder + "/iris.csv"), cancer = read_table(folder + "/breast_cancer.csv");
  CHECK(iris.rows == 150);
  CHECK(iris.columns == 4);
  CHECK(iris.classes == Names{"setosa", "versicolor", "virginica"});
  CHECK(std::count(iris.labels.begin(), iris.labels.end(), 2) == 50);
  CHECK(cancer.columns == 30);
  CHECK(cancer.classes == Names{"malignant", "benign"});
  CHECK(std::count(cancer.labels.begin(), cancer.labels.end(), 1) == 357);
  CHECK(read_table(folder + "/wine_data.csv").columns == 13);
  CHECK(read_table(folder + "/digits.csv.gz").columns == 65);
  const Table digits = read_table(folder + "/digits.csv.gz", with_label("last"));
  CHECK(digits.rows == 1797);
  CHECK(digits.columns == 64);
  CHECK(digits.classes.size() == 10);
}
