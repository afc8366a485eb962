// SPDX-License-Identifier: Apache-2.0

// Package pb is generated from proto/muster/v1 by `make proto`; never edit it.
package pb
