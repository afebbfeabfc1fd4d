// gradus_bench: Google Benchmark's program, or with --serve a server that bench/compare asks for single works.
#include <benchmark/benchmark.h>

#include <cstring>

#include "bench/work.hpp"

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--serve") == 0) {
    gradus::bench::serve();
    return 0;
  }
  for (const gradus::bench::Work& work : gradus::bench::all_works())
    benchmark::RegisterBenchmark(work.name.c_str(),
                                 [work](benchmark::State& state) {
                                   const gradus::bench::Step step = work.prepare();
                                   for (auto _ : state) step();
                                   if (work.flop > 0)
                                     state.counters["FLOP/s"] =
                                         benchmark::Counter(work.flop * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
                                 })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
