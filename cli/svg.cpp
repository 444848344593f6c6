#include "svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "console.h"

namespace cli {
namespace {

constexpr double width = 960, left = 70, right = 30, top = 70;

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(),
                std::fabs(value) >= 100 || value == std::floor(value) ? "%.0f" : "%.3g", value);
  return text.data();
}

std::string coordinate(double value) { return fixed(value, 1); }

// XML takes neither control characters nor bytes that are no UTF-8, as tokens and names of files can be, nor
// U+FFFE and U+FFFF.
std::string escaped(const std::string& text) {
  std::string shown = one_line(valid_utf8(text));
  for (const char* noncharacter : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"})
    for (std::size_t at; (at = shown.find(noncharacter)) != std::string::npos;) shown.replace(at, 3, " ");
  std::string out;
  for (const char c : shown) {
    if (c == '<')
      out.append("&lt;");
    else if (c == '>')
      out.append("&gt;");
    else if (c == '&')
      out.append("&amp;");
    else
      out.push_back(c);
  }
  return out;
}

std::string rect(double x, double y, double w, double h, const std::string& fill, const std::string& tip) {
  std::string out = "<rect x=\"";
  out.append(coordinate(x))
      .append("\" y=\"")
      .append(coordinate(y))
      .append("\" width=\"")
      .append(coordinate(w));
  out.append("\" height=\"").append(coordinate(h)).append("\" fill=\"").append(fill).append("\">");
  if (!tip.empty()) out.append("<title>").append(escaped(tip)).append("</title>");
  return out.append("</rect>\n");
}

std::string label(double x, double y, const std::string& text, const std::string& anchor, int size,
                  bool is_bold) {
  std::string out = "<text x=\"";
  out.append(coordinate(x))
      .append("\" y=\"")
      .append(coordinate(y))
      .append("\" text-anchor=\"")
      .append(anchor);
  out.append("\" font-size=\"").append(std::to_string(size)).append("\"");
  if (is_bold) out.append(" font-weight=\"bold\"");
  return out.append(">").append(escaped(text)).append("</text>\n");
}

// From near white through orange to dark red: print and colour-blind safe, since lightness alone tells.
std::string colour(double share) {
  constexpr std::array<std::array<double, 3>, 4> stops = {
      {{255, 247, 236}, {253, 187, 132}, {215, 48, 31}, {80, 0, 0}}};
  const double at = std::clamp(share, 0.0, 1.0) * (stops.size() - 1);
  const auto i = std::min(static_cast<std::size_t>(at), stops.size() - 2);
  std::array<char, 16> text{};
  std::array<int, 3> rgb{};
  for (std::size_t c = 0; c < 3; ++c)
    rgb[c] = static_cast<int>(stops[i][c] + (stops[i + 1][c] - stops[i][c]) * (at - static_cast<double>(i)));
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
  return text.data();
}

std::string head(double height, const std::string& title, const std::string& subtitle) {
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ";
  out.append(coordinate(width)).append(" ").append(coordinate(height));
  out.append(
      "\" font-family=\"sans-serif\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
  return out.append(label(left, 28, title, "start", 18, true))
      .append(label(left, 50, subtitle, "start", 13, false));
}

double share_of_scale(const HeatMap& map, double value) {
  if (!(map.high > map.low && value > map.low)) return 0;  // also for NaN
  if (!map.logarithmic) return (value - map.low) / (map.high - map.low);
  return std::log(value / map.low) / std::log(map.high / map.low);
}

std::string colour_scale(const HeatMap& map, double y) {
  std::string out;
  constexpr int n_steps = 100;
  for (int i = 0; i < n_steps; ++i)
    out.append(rect(left + 3.0 * i, y, 3.2, 10, colour(i / double{n_steps}), ""));
  out.append(label(left, y + 24, number(map.low), "start", 11, false));
  out.append(label(left + 3.0 * n_steps, y + 24, number(map.high), "end", 11, false));
  return out.append(label(left + 3.0 * n_steps + 12, y + 9, map.unit, "start", 11, false));
}

}  // namespace

std::string to_svg(const HeatMap& map) {
  const double cell_w = (width - left - right) / static_cast<double>(std::max<std::size_t>(map.n_columns, 1));
  const double cell_h =
      std::clamp(320 / static_cast<double>(std::max<std::size_t>(map.n_rows, 1)), 8.0, 34.0);
  const double bottom = top + cell_h * static_cast<double>(map.n_rows);
  std::string out = head(bottom + 80 + 18 * static_cast<double>(map.notes.size()), map.title, map.subtitle);
  for (std::size_t r = 0; r < map.n_rows; ++r) {
    const double y = top + cell_h * static_cast<double>(r);
    if (r % (map.n_rows / 12 + 1) == 0)
      out.append(label(left - 8, y + cell_h / 2 + 4, std::to_string(r), "end", 11, false));
    for (std::size_t c = 0; c < map.n_columns; ++c) {
      const double value = map.values[r * map.n_columns + c];
      std::string tip = map.row_label;
      tip.append(" ").append(std::to_string(r)).append(", ").append(map.column_label).append(" ");
      tip.append(std::to_string(c)).append(": ").append(number(value));
      out.append(rect(left + cell_w * static_cast<double>(c), y, cell_w + 0.3, cell_h - 0.5,
                      colour(share_of_scale(map, value)), tip));
    }
  }
  out.append(label(12, top - 8, map.row_label, "start", 11, false));
  out.append(label(left, bottom + 16, map.column_label, "start", 11, false));
  out.append(label(width - right, bottom + 16, std::to_string(map.n_columns - 1), "end", 11, false));
  out.append(colour_scale(map, bottom + 30));
  for (std::size_t i = 0; i < map.notes.size(); ++i)
    out.append(label(left, bottom + 78 + 18 * static_cast<double>(i), map.notes[i], "start", 12, false));
  return out.append("</svg>\n");
}

std::string to_svg(const BarChart& chart) {
  constexpr double height = 320;
  constexpr std::array<const char*, 4> colours = {"#d7301f", "#2b8cbe", "#7a7a7a", "#fdbb84"};
  const std::size_t n_groups = chart.values.front().size();
  double most = 0;
  for (const auto& series : chart.values)
    for (const double value : series) most = std::max(most, value);
  const double group_w = (width - left - right) / static_cast<double>(n_groups);
  const double bar_w = group_w * 0.8 / static_cast<double>(chart.series.size());
  std::string out = head(top + height + 70, chart.title, chart.subtitle);
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    for (std::size_t g = 0; g < n_groups; ++g) {
      const double value = chart.values[s][g];
      const double h = most > 0 ? height * value / most : 0;
      const double x = left + group_w * static_cast<double>(g) + bar_w * static_cast<double>(s);
      std::string tip = chart.series[s];
      tip.append(", ")
          .append(chart.group_label)
          .append(" ")
          .append(std::to_string(g))
          .append(": ")
          .append(number(value));
      out.append(rect(x, top + height - h, bar_w, h, colours[s % colours.size()], tip));
    }
    out.append(rect(left + 240 * static_cast<double>(s), top + height + 36, 12, 12,
                    colours[s % colours.size()], ""));
    out.append(label(left + 18 + 240 * static_cast<double>(s), top + height + 46, chart.series[s], "start",
                     12, false));
  }
  for (std::size_t g = 0; g < n_groups; g += n_groups / 24 + 1)
    out.append(label(left + group_w * (static_cast<double>(g) + 0.4), top + height + 16, std::to_string(g),
                     "middle", 11, false));
  out.append(label(left - 8, top + 8, number(most), "end", 11, false));
  out.append(label(left - 8, top + height, "0", "end", 11, false));
  out.append(label(12, top - 8, chart.unit, "start", 11, false));
  return out.append("</svg>\n");
}

namespace {

struct Axis {
  double low, high, step;  // step: between the marks
};

// From a round number below the values to one above them, in steps of 1, 2 or 5 times a power of ten.
Axis axis_of(double low, double high) {
  const double span = high > low ? high - low : 1;
  const double power = std::pow(10, std::floor(std::log10(span / 5)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0})
    if (span / step > 6) step = factor * power;
  return {std::floor(low / step) * step, std::ceil(high / step) * step, step};
}

// Where its marks are.
std::vector<double> ticks(const Axis& axis) {
  std::vector<double> at;
  const long n_steps = std::lround((axis.high - axis.low) / axis.step);
  for (long i = 0; i <= n_steps; ++i) at.push_back(axis.low + static_cast<double>(i) * axis.step);
  return at;
}

std::string polyline(const std::string& points, const char* stroke, double stroke_width) {
  return "<polyline points=\"" + points + "\" fill=\"none\" stroke-linejoin=\"round\" stroke=\"" + stroke +
         "\" stroke-width=\"" + number(stroke_width) + "\"/>\n";
}

}  // namespace

std::string to_svg(const LineChart& chart) {
  constexpr double height = 320;
  constexpr std::array<const char*, 4> colours = {"#7a7a7a", "#9ecae1", "#d7301f", "#2b8cbe"};
  LineChart::Point least = {HUGE_VAL, HUGE_VAL}, most = {-HUGE_VAL, -HUGE_VAL};
  for (const auto& line : chart.lines)
    for (const auto& [x, y] : line.points) {
      least = {std::min(least.x, x), std::min(least.y, y)};
      most = {std::max(most.x, x), std::max(most.y, y)};
    }
  const Axis x_axis = axis_of(0, most.x), y_axis = axis_of(least.y, most.y);
  const auto x_at = [&](double x) {
    return left + (width - left - right) * (x - x_axis.low) / (x_axis.high - x_axis.low);
  };
  const auto y_at = [&](double y) { return top + height * (y_axis.high - y) / (y_axis.high - y_axis.low); };
  const auto point = [&](double x, double y) {
    return coordinate(x_at(x)).append(",").append(coordinate(y_at(y))).append(" ");
  };
  std::string out = head(top + height + 66, chart.title, chart.subtitle);
  for (const double y : ticks(y_axis)) {
    out.append(polyline(point(x_axis.low, y).append(point(x_axis.high, y)), "#ddd", 1));
    out.append(label(left - 8, y_at(y) + 4, number(y), "end", 11, false));
  }
  for (const double x : ticks(x_axis))
    out.append(label(x_at(x), top + height + 16, number(x), "middle", 11, false));
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    std::string points;
    for (const auto& [x, y] : chart.lines[i].points) points.append(point(x, y));
    out.append(polyline(points, colours[i % colours.size()], chart.lines[i].width));
    const double key = left + 240 * static_cast<double>(i);
    out.append(rect(key, top + height + 40, 12, 4, colours[i % colours.size()], ""));
    out.append(label(key + 18, top + height + 46, chart.lines[i].name, "start", 12, false));
  }
  out.append(label(12, top - 8, chart.y_label, "start", 11, false));
  out.append(label(width - right, top + height + 30, chart.x_label, "end", 11, false));
  return out.append("</svg>\n");
}

}  // namespace cli
