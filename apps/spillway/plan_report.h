// A plan for people: on the terminal and as a page.
#pragma once

#include <string>

#include "spillway/planner/plan.h"
#include "spillway/report/html_report.h"

namespace spillway::cli {

[[nodiscard]] std::string plan_text(const planner::PlanRequest& request, const planner::Plan& plan);
[[nodiscard]] report::HtmlReport plan_page(const planner::PlanRequest& request,
                                           const planner::Plan& plan);

}  // namespace spillway::cli
