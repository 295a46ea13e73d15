// Data files of the planner, compiled into the program so that it runs from anywhere.
#pragma once

#include <string_view>

namespace spillway::planner::data {

[[nodiscard]] std::string_view catalogue();  ///< diagnose/catalogue.yaml
[[nodiscard]] std::string_view hardware();   ///< data/hardware.yaml

}  // namespace spillway::planner::data
