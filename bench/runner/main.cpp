// gradus_work: does pieces of work on request, so that bench/compare can alternate between libraries. Requests are lines on
// standard input, answers lines on standard output:
//   list                 the kinds of work, one a line, then an empty line
//   time SECONDS NAME... at least once and for about so long: seconds a piece
//   peak NAME...         does it once: bytes by which the process grew at most
//   limits               what the machine can do with as many threads: names and numbers
// Anything wrong is answered by "error ..." GRADUS_THREADS and GRADUS_ISA apply.
#include <fstream>
#include <iostream>
#include <sstream>

#include "bench/machine.hpp"
#include "bench/runner/timing.hpp"
#include "bench/runner/work.hpp"

namespace gradus::bench {
namespace {

std::vector<Kind> all_kinds() {
  std::vector<Kind> all;
  for (const auto& kinds : {gemm_kinds(), op_kinds(), attention_kinds(), step_kinds(), kmeans_kinds()}) all.insert(all.end(), kinds.begin(), kinds.end());
  return all;
}

Work make(const std::string& name) {
  std::istringstream in(name);
  std::string kind;
  in >> kind;
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  for (const Kind& known : all_kinds())
    if (kind == known.name) return known.make(Words(words));
  throw ValueError("gradus_work", cat("there is no work called '", kind, "'"), "ask for a list");
}

// A line of /proc/self/status in bytes.
double status(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key + ":", 0) == 0) return 1024 * std::stod(line.substr(key.size() + 1));
  return 0;
}

double peak_of(const Work& work) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the high-water mark starts from here
  const double before = status("VmRSS");
  work();
  return status("VmHWM") - before;
}

void answer(const std::string& request) {
  static std::string current;
  static Work work;
  std::istringstream in(request);
  std::string what, name;
  double seconds = 0;
  in >> what;
  if (what == "list") {
    for (const Kind& kind : all_kinds()) std::cout << kind.name << ' ' << kind.words << '\n';
    std::cout << std::endl;
    return;
  }
  if (what == "limits") {
    for (const Limit& limit : machine_limits()) std::cout << limit.name << ' ' << limit.per_second << ' ';
    std::cout << std::endl;
    return;
  }
  if (what == "time") in >> seconds;
  std::getline(in >> std::ws, name);
  if (name != current) {
    work = nullptr;  // frees the memory of the old first
    work = make(name);
    current = name;
  }
  std::cout << (what == "peak" ? peak_of(work) : time_of(work, seconds)) << std::endl;
}

}  // namespace

const std::string& Words::text(std::size_t i) const {
  if (i >= words_.size()) throw ValueError("gradus_work", cat("word ", i, " is missing"), "ask for a list");
  return words_[i];
}
index_t Words::number(std::size_t i) const {
  std::size_t end = 0;
  const index_t value = std::stoll(text(i), &end);
  if (end != text(i).size()) throw ValueError("gradus_work", cat("'", text(i), "' is not a number"), "ask for a list");
  return value;
}

}  // namespace gradus::bench

int main() { gradus::bench::answer_requests(gradus::bench::answer); }
