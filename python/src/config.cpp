#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common.h"
#include "spillway/config/config_container.h"
#include "spillway/config/key_info.h"
#include "spillway/config/recipes.h"
#include "spillway/config/resolve.h"
#include "spillway/config/validate.h"
#include "spillway/config/yaml.h"
#include "spillway/core/dtype.h"
#include "spillway/core/error.h"

namespace spillway::python {

namespace {

using config::ByteRate;
using config::ConfigContainer;
using config::KeyInfo;

const KeyInfo& key_of(const std::string& path) {
  if (const KeyInfo* key = config::find_key(path)) return *key;
  const std::string nearest = config::nearest_key(path);
  throw py::attribute_error(
      nearest.empty() ? fmt::format("There is no setting '{}'.", path)
                      : fmt::format("There is no setting '{}'; did you mean '{}'?", path, nearest));
}

/// C++ to Python: byte counts and rates are numbers, dtypes their names.
struct ToPython {
  template <typename T>
  py::object operator()(const T* value) const {
    return py::cast(*value);
  }
  py::object operator()(const Bytes* value) const { return py::int_(value->value); }
  py::object operator()(const ByteRate* value) const { return py::float_(value->bytes_per_second); }
  py::object operator()(const DType* value) const { return py::str(std::string(name_of(*value))); }
};

/// Python to C++. Texts with units are read as in YAML; True is no number.
struct FromPython {
  py::handle from;

  void operator()(bool* value) const {
    if (!py::isinstance<py::bool_>(from)) throw py::cast_error();
    *value = from.cast<bool>();
  }
  template <typename T>
  void operator()(T* value) const {
    if constexpr (!std::is_same_v<T, std::string> && !std::is_same_v<T, config::StringList>) {
      if (py::isinstance<py::bool_>(from)) throw py::cast_error();
    }
    *value = from.cast<T>();
  }
  void operator()(Bytes* value) const {
    *value = py::isinstance<py::str>(from) ? parse_bytes(from.cast<std::string>())
                                           : Bytes(from.cast<std::int64_t>());
  }
  void operator()(ByteRate* value) const { value->bytes_per_second = from.cast<double>(); }
  // torch.bfloat16 comes as its name, "torch.bfloat16".
  void operator()(DType* value) const { *value = parse_dtype(py::str(from).cast<std::string>()); }
};

py::object get(ConfigContainer& container, const std::string& path) {
  return std::visit(ToPython{}, key_of(path).slot(container));
}

void set(ConfigContainer& container, const std::string& path, const py::object& value) {
  const KeyInfo& key = key_of(path);
  try {
    std::visit(FromPython{value}, key.slot(container));
  } catch (const py::cast_error&) {
    throw py::type_error(fmt::format("{}: {} is no value of type {}.", path,
                                     py::repr(value).cast<std::string>(), key.type));
  }
}

py::list describe_keys() {
  ConfigContainer defaults;
  py::list rows;
  for (const KeyInfo& key : config::all_keys()) {
    py::dict row;
    row["path"] = key.path;
    row["section"] = std::string(key.section);
    row["name"] = std::string(key.name);
    row["type"] = std::string(key.type);
    row["default"] = std::visit(ToPython{}, key.slot(defaults));
    row["constraint"] = config::to_string(key.constraint);
    row["unit"] = std::string(key.unit);
    row["help"] = std::string(key.help);
    rows.append(row);
  }
  return rows;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const auto name : config::all_sections()) names.emplace_back(name);
  return names;
}

py::list findings_of(ConfigContainer container, std::optional<int> num_ranks) {
  config::complete(container);
  py::list result;
  for (const auto& finding : config::validate(container, num_ranks)) {
    constexpr std::array<const char*, 3> kSeverities = {"error", "warning", "note"};
    result.append(py::make_tuple(kSeverities.at(static_cast<std::size_t>(finding.severity)),
                                 finding.keys, finding.text, finding.fix));
  }
  return result;
}

ConfigContainer load(const std::optional<std::string>& recipe,
                     const std::vector<std::string>& files,
                     const std::vector<std::string>& overrides,
                     const std::vector<std::string>& recipe_folders, std::optional<int> num_ranks) {
  config::Sources sources;
  sources.recipe = recipe;
  sources.files.assign(files.begin(), files.end());
  sources.overrides = overrides;
  sources.recipe_folders.assign(recipe_folders.begin(), recipe_folders.end());
  return config::resolve_or_throw(sources, num_ranks);
}

}  // namespace

void bind_config(py::module_& m) {
  py::class_<ConfigContainer>(m, "Config")
      .def(py::init<>())
      .def("get", &get)
      .def("set", &set)
      .def("copy", [](const ConfigContainer& self) { return ConfigContainer(self); })
      .def("to_yaml", &config::to_yaml)
      .def("findings", &findings_of, py::arg("num_ranks"));
  m.def("load_config", &load, py::arg("recipe"), py::arg("files"), py::arg("overrides"),
        py::arg("recipe_folders"), py::arg("num_ranks"));
  m.def("config_keys", &describe_keys);
  m.def("config_sections", &section_names);
}

}  // namespace spillway::python
