// The errors that Spillway throws. Each text says what was wanted, what there was, and what to
// change.
#pragma once

#include <stdexcept>
#include <string>

#include "spillway/core/bytes.h"

namespace spillway {

/// Base of every error that Spillway throws on purpose.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A configuration, command line or data file that cannot be used as it is.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// Device, host or page-locked memory ran out.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& message, Bytes wanted_bytes, Bytes free_bytes)
      : Error(message), wanted(wanted_bytes), free(free_bytes) {}

  Bytes wanted;
  Bytes free;
};

/// A failed copy, kernel or driver call. `code` is the backend's own (cudaError_t, or 0).
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message, int error_code = 0)
      : Error(message), code(error_code) {}

  int code;
};

/// A caller broke a documented precondition (wrong dtype, size, order of calls).
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace spillway
