#include "engine/io/file.hpp"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/io/data.hpp"

using namespace gradus;
using namespace gradus::io;
using namespace gradus::testing;

namespace {

std::string gzip(std::string_view text) {
  z_stream z{};
  deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, static_cast<uLong>(text.size())) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string numbers_as_text(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i * 7919 % 10007) + "\n";
  return text;
}

}  // namespace

TEST_CASE("a plain and a gzipped file read the same") {
  const TemporaryFolder folder;
  const std::string text = numbers_as_text(50000);
  CHECK(read_file(folder.put("a.txt", text)) == text);
  CHECK(read_file(folder.put("a.txt.gz", gzip(text))) == text);
  CHECK(read_file(folder.put("named_otherwise", gzip(text))) == text);
}

TEST_CASE("gzip members are joined, as gzip does") { CHECK(gunzip(gzip("one ") + gzip("two") + gzip(""), "x") == "one two"); }

TEST_CASE("a highly compressed file unpacks whole") {
  const std::string zeros(5'000'000, '0');
  CHECK(gunzip(gzip(zeros), "x") == zeros);
}

TEST_CASE("every truncation of a gzip file is an error that says so") {
  const std::string packed = gzip(numbers_as_text(200));
  for (std::size_t length = 0; length < packed.size(); ++length)
    CHECK_THAT(io_error([&] { (void)gunzip(std::string_view(packed).substr(0, length), "p.gz"); }), says("[p.gz] is a gzip file that was cut short"));
}

TEST_CASE("a damaged gzip file never gives wrong bytes") {
  const std::string text = numbers_as_text(200), packed = gzip(text);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    std::string damaged = packed;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    std::string unpacked = text;
    try {
      unpacked = gunzip(damaged, "p.gz");  // the bytes of the time stamp and the like do not matter
    } catch (const IoError&) {
    }
    CHECK(unpacked == text);
  }
  CHECK_THAT(io_error([&] { (void)gunzip(packed + "tail", "p.gz"); }), says("damaged"));
}

TEST_CASE("files that cannot be read are named with the reason") {
  const TemporaryFolder folder;
  CHECK_THAT(io_error([&] { (void)read_file(folder.file("none.csv")); }), says("none.csv] no such file"));
  CHECK_THAT(io_error([&] { (void)read_file(folder.file("")); }), says("is a directory"));
  CHECK_THAT(io_error([&] { (void)read_file(folder.put("void.csv", "")); }), says("void.csv] is empty"));
  CHECK_THAT(io_error([&] { (void)read_file(folder.put("void.gz", gzip(""))); }), says("void.gz] is empty"));
  CHECK_THAT(io_error([&] { (void)read_file(folder.put("plain", "x") + "/below"); }), says("cannot be opened"));
  if (::geteuid() != 0) {  // root reads everything
    const std::string secret = folder.put("secret", "x");
    ::chmod(secret.c_str(), 0);
    CHECK_THAT(io_error([&] { (void)read_file(secret); }), says("cannot be opened"));
  }
}

TEST_CASE("an output file appears whole on commit and leaves nothing else") {
  const TemporaryFolder folder;
  const std::string path = folder.file("out.json");
  {
    OutputFile out(path);
    out.write("one ");
    CHECK_FALSE(std::filesystem::exists(path));
    out.write("two");
    out.commit();
    CHECK(contents(path) == "one two");
    CHECK_THROWS_AS(out.write("late"), IoError);
    CHECK_THROWS_AS(out.commit(), IoError);
  }
  CHECK(contents(path) == "one two");
  CHECK(folder.count() == 1);
}

TEST_CASE("an output file that is not committed changes nothing") {
  const TemporaryFolder folder;
  const std::string old = folder.put("old", "before");
  {
    OutputFile fresh(folder.file("fresh")), replaced(old, true);
    fresh.write("x");
    replaced.write("after");
    OutputFile moved(std::move(fresh));
    moved.write("y");
  }
  CHECK(contents(old) == "before");
  CHECK(folder.count() == 1);
}

TEST_CASE("an existing file is refused, and replaced with force, keeping its permissions") {
  const TemporaryFolder folder;
  const std::string path = folder.put("old", "before");
  ::chmod(path.c_str(), 0640);
  CHECK_THAT(io_error([&] { OutputFile out(path); }), says("exists already") && says("--force"));
  write_file(path, "after", true);
  CHECK(contents(path) == "after");
  struct stat status {};
  ::stat(path.c_str(), &status);
  CHECK((status.st_mode & 0777U) == 0640U);
  CHECK(folder.count() == 1);
}

TEST_CASE("force through a symbolic link replaces the file it points at") {
  const TemporaryFolder folder;
  const std::string target = folder.put("target", "before"), link = folder.file("link");
  std::filesystem::create_symlink("target", link);
  write_file(link, "after", true);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(contents(target) == "after");
}

TEST_CASE("an output place that cannot be written is found when it is claimed") {
  const TemporaryFolder folder;
  CHECK_THAT(io_error([&] { OutputFile out(folder.file("")); }), says("is a directory"));
  CHECK_THAT(io_error([&] { OutputFile out(folder.file("no/such/out")); }), says("its folder does not exist"));
  CHECK_THAT(io_error([&] { OutputFile out(folder.put("plain", "x") + "/out"); }), says("cannot be written"));
  CHECK_THAT(io_error([&] { OutputFile out("/proc/gradus-out"); }), says("/proc/gradus-out"));
  CHECK_THROWS_AS(OutputFile(""), IoError);
  std::filesystem::create_symlink("nowhere", folder.file("dangling"));
  CHECK_THAT(io_error([&] { OutputFile out(folder.file("dangling")); }), says("link to nothing"));
}

TEST_CASE("a file that appears while the work runs is not overwritten") {
  const TemporaryFolder folder;
  OutputFile out(folder.file("out"));
  out.write("ours");
  const std::string path = folder.put("out", "theirs");
  CHECK_THAT(io_error([&] { out.commit(); }), says("created by somebody else"));
  CHECK(contents(path) == "theirs");
}

TEST_CASE("a device is written directly, and a full one is an error") {
  write_file("/dev/null", "gone");
  CHECK_THAT(io_error([&] { write_file("/dev/full", "x"); }), says("cannot be written"));
}

TEST_CASE("text in error messages is short, printable and never half a character") {
  CHECK(excerpt("plain") == "\"plain\"");
  CHECK(excerpt("a\tb\x1b[0m") == "\"a?b?[0m\"");
  CHECK(excerpt(std::string(41, 'x')) == "\"" + std::string(40, 'x') + "...\"");
  std::string umlauts = "x";
  for (int i = 0; i < 30; ++i) umlauts += "\xC3\xA4";
  CHECK(excerpt(umlauts) == "\"" + umlauts.substr(0, 39) + "...\"");
}

TEST_CASE("a file is read in pieces, as it stands, and never past its end") {
  const TemporaryFolder folder;
  const InputFile file(folder.put("a", "\x1f\x8b rest"));
  CHECK(file.size() == 7);
  std::string piece(4, '\0');
  file.read(3, std::as_writable_bytes(std::span(piece)));
  CHECK(piece == "rest");
  CHECK_THAT(io_error([&] { file.read(4, std::as_writable_bytes(std::span(piece))); }), says("became shorter"));
  CHECK_THAT(io_error([&] { InputFile none(folder.file("none")); }), says("no such file"));
  CHECK_THAT(io_error([&] { InputFile directory(folder.file("")); }), says("is no regular file"));
}
