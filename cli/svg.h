// Pictures that a browser opens: heat maps, bars and lines, as SVG text.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace cli {

struct HeatMap {
  std::string title, subtitle, row_label, column_label;
  std::size_t n_rows = 0, n_columns = 0;
  std::vector<double> values;      // [n_rows, n_columns]
  double low = 0, high = 1;        // ends of the colour scale
  bool logarithmic = false;        // low > 0 then
  std::string unit;                // of the colour scale, as in "times the median"
  std::vector<std::string> notes;  // lines under the picture
};
std::string to_svg(const HeatMap& map);

struct BarChart {
  std::string title, subtitle, group_label;
  std::vector<std::string> series;          // names
  std::vector<std::vector<double>> values;  // [series][group]
  std::string unit;
};
std::string to_svg(const BarChart& chart);

struct LineChart {
  struct Point {
    double x, y;
  };
  struct Line {
    std::string name;
    std::vector<Point> points;  // from left to right
    double width = 2;           // a wide line shows from under a narrow one that covers it
  };
  std::string title, subtitle, x_label, y_label;
  std::vector<Line> lines;  // drawn in this order; at least one point in all
};
std::string to_svg(const LineChart& chart);

}  // namespace cli
