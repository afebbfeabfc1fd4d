#pragma once
// Axes of pictures: the range that holds the data, ticks at round numbers, and the map from values to positions.

#include <string>
#include <vector>

namespace gradus::tools::plot {

enum class Scale { linear, log };

/// What a caller says about an axis.
struct Axis {
  std::string label;
  std::string unit{};  ///< shown in brackets behind the label
  Scale scale = Scale::linear;
  bool integers = false;       ///< counts, such as layers: no ticks between whole numbers
  bool includes_zero = false;  ///< the range starts or ends at 0 at least
};

/// Whether an axis can show the value: it is finite, positive on a log scale, and not so extreme (1e250) that margins overflow.
[[nodiscard]] bool can_show(double value, Scale scale) noexcept;

/// The smallest and the largest of the values an axis can show.
struct Extent {
  double low = 1, high = 0;  // nothing yet

  [[nodiscard]] bool empty() const noexcept { return low > high; }
  /// Takes the value in if the axis can show it; false otherwise.
  bool add(double value, Scale scale) noexcept;
};

/// One tick; minor ones have no text.
struct Tick {
  double value;
  std::string text;
};

/// An axis fitted to its data.
struct FittedAxis {
  Scale scale = Scale::linear;
  double low = 0, high = 1;  ///< of the drawn range
  std::vector<Tick> ticks;
  std::string title;  ///< label, factor and unit: "objective (x10^6)"

  /// 0 at `low`, 1 at `high`.
  [[nodiscard]] double fraction(double value) const noexcept;
};

/// Chooses range and ticks, about `wanted` of them. An empty extent gives 0..1, or 1..10 on a log scale.
[[nodiscard]] FittedAxis fit(const Axis& axis, Extent extent, int wanted);

/// Makes the range of `axis` larger by `factor` (at least 1) about its middle, keeping its ticks at round numbers.
[[nodiscard]] FittedAxis widen(const Axis& axis, const FittedAxis& fitted, double factor, int wanted);

}  // namespace gradus::tools::plot
