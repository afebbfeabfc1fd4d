#include "tools/axis.hpp"

#include <cmath>
#include <limits>

#include "tests/catch.hpp"

using namespace gradus::tools::plot;

namespace {

Extent extent(double low, double high) { return {low, high}; }

std::vector<std::string> texts(const FittedAxis& axis) {
  std::vector<std::string> out;
  for (const Tick& tick : axis.ticks)
    if (!tick.text.empty()) out.push_back(tick.text);
  return out;
}

using Texts = std::vector<std::string>;
Axis log_axis() {
  Axis axis;
  axis.scale = Scale::log;
  return axis;
}

}  // namespace

TEST_CASE("ticks stand at round numbers with the digits they need") {
  CHECK(texts(fit({}, extent(0, 1), 5)) == Texts{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"});
  CHECK(texts(fit({}, extent(-7, 13), 4)) == Texts{"\u22125", "0", "5", "10"});
  CHECK(texts(fit({}, extent(4.59281, 4.59289), 4)) == Texts{"4.59282", "4.59284", "4.59286", "4.59288"});
}

TEST_CASE("huge and tiny numbers are shown over a power of a thousand") {
  Axis axis;
  axis.label = "x";
  axis.unit = "m";
  const FittedAxis huge = fit(axis, extent(0, 1e6), 5);
  CHECK(huge.title == "x (\u00D710\u2076 m)");
  CHECK(texts(huge).back() == "1.0");
  CHECK(fit(axis, extent(0, 3e-7), 3).title == "x (\u00D710\u207B\u2079 m)");
  CHECK(fit(axis, extent(0, 3), 3).title == "x (m)");
}

TEST_CASE("counts have no ticks between whole numbers") {
  Axis axis;
  axis.integers = true;
  CHECK(texts(fit(axis, extent(0, 2), 8)) == Texts{"0", "1", "2"});
  CHECK(texts(fit(axis, extent(3, 3), 8)).size() == 1);
}

TEST_CASE("log axes name decades, or 1, 2, 5 when there are few") {
  CHECK(texts(fit(log_axis(), extent(1, 1e4), 6)) == Texts{"10\u2070", "10\u00B9", "10\u00B2", "10\u00B3", "10\u2074"});
  CHECK(texts(fit(log_axis(), extent(0.01, 100), 6)) == Texts{"0.01", "0.1", "1", "10", "100"});
  CHECK(texts(fit(log_axis(), extent(1, 20), 6)) == Texts{"1", "2", "5", "10", "20"});
  CHECK(texts(fit(log_axis(), extent(4.6, 6.9), 5)) == Texts{"5.0", "5.5", "6.0", "6.5", "7.0"});
  CHECK(texts(fit(log_axis(), extent(1e-12, 1e12), 6)).size() <= 8);
}

TEST_CASE("every fitted range holds its data and increases") {
  const double values[] = {0, 1e-300, 1e-12, 1, 1 + 1e-15, 3, 1e5, 1e15, 1.7e308};
  for (const double a : values)
    for (const double b : values)
      for (const double sign : {1.0, -1.0})
        for (const bool log : {false, true})
          for (const bool zero : {false, true}) {
            Extent e;
            Axis axis;
            axis.scale = log ? Scale::log : Scale::linear;
            axis.includes_zero = zero;
            e.add(sign * a, axis.scale);
            e.add(b, axis.scale);
            INFO(sign * a << " " << b << " " << log);
            const FittedAxis fitted = fit(axis, e, 5);
            REQUIRE(std::isfinite(fitted.low));
            REQUIRE(std::isfinite(fitted.high));
            REQUIRE(fitted.low < fitted.high);
            REQUIRE(fitted.ticks.size() < 60);
            for (const Tick& tick : fitted.ticks) REQUIRE(std::isfinite(fitted.fraction(tick.value)));
            if (!e.empty()) {
              CHECK(fitted.fraction(e.low) >= 0);
              CHECK(fitted.fraction(e.high) <= 1);
            }
          }
}

TEST_CASE("an extent takes only what its axis can show") {
  Extent e;
  CHECK_FALSE(e.add(std::nan(""), Scale::linear));
  CHECK_FALSE(e.add(std::numeric_limits<double>::infinity(), Scale::linear));
  CHECK_FALSE(e.add(0, Scale::log));
  CHECK_FALSE(e.add(1e-300, Scale::log));
  CHECK_FALSE(e.add(-1e300, Scale::linear));
  CHECK(e.empty());
  CHECK(e.add(0, Scale::linear));
  CHECK_FALSE(e.empty());
}
