//go:build linux && cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"preflight/facts"
)

func (c *card) ecc() {
	mode, ok := told(c.asker, both(c.device.GetEccMode), "nvmlDeviceGetEccMode")
	if !ok {
		return
	}
	pending := mode.second == nvml.FEATURE_ENABLED
	count := func(which nvml.MemoryErrorType, since nvml.EccCounterType) *int64 {
		call := func() (uint64, nvml.Return) { return c.device.GetTotalEccErrors(which, since) }
		errors, ok := told(c.asker, call, "nvmlDeviceGetTotalEccErrors")
		if !ok {
			return nil
		}
		counted := int64(errors)
		return &counted
	}
	c.seen.ECC = &facts.ECC{
		Enabled: mode.first == nvml.FEATURE_ENABLED, Pending: &pending,
		Corrected:            count(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC),
		Uncorrected:          count(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC),
		AggregateCorrected:   count(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC),
		AggregateUncorrected: count(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC),
	}
}

// retired pages are told by GPUs before Ampere alone.
func (c *card) retired() {
	single, ok := told(c.asker, of(c.device.GetRetiredPages, nvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS), "nvmlDeviceGetRetiredPages")
	if !ok {
		return
	}
	double, _ := told(c.asker, of(c.device.GetRetiredPages, nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR), "nvmlDeviceGetRetiredPages")
	pending, _ := told(c.asker, c.device.GetRetiredPagesPendingStatus, "nvmlDeviceGetRetiredPagesPendingStatus")
	c.seen.Retired = &facts.Retired{SingleBit: len(single), DoubleBit: len(double), Pending: pending == nvml.FEATURE_ENABLED}
}

// remapped rows are told by Ampere and later.
func (c *card) remapped() {
	rows, ok := told(c.asker, func() (facts.Remapped, nvml.Return) {
		corrected, uncorrected, pending, failed, ret := c.device.GetRemappedRows()
		return facts.Remapped{Corrected: corrected, Uncorrected: uncorrected, Pending: pending, Failed: failed}, ret
	}, "nvmlDeviceGetRemappedRows")
	if ok {
		c.seen.Remapped = &rows
	}
}
