// SPDX-License-Identifier: Apache-2.0
#include "scenario.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char default_path[] = "/etc/nvml-stub.scenario";

static char text[1 << 20];
static struct {
	char *key, *value;
} lines[16384];
static struct scope scopes[256]; /* the first is the machine's */
static int scope_count;

int scenario_users;

static int read_text(void)
{
	const char *path = getenv("NVML_STUB_SCENARIO");
	FILE *file = fopen(path ? path : default_path, "re");
	if (!file) {
		fprintf(stderr, "nvml stand-in: cannot read %s\n", path ? path : default_path);
		return 0;
	}
	text[fread(text, 1, sizeof text - 1, file)] = 0;
	fclose(file);
	return 1;
}

/* open_scope starts the scope of a card or, below a card, of an instance. */
static void open_scope(int line, const char *kind, const char *index)
{
	struct scope *scope = &scopes[scope_count];
	scope->first = line;
	scope->index = atoi(index);
	scope->card = NULL;
	if (strcmp(kind, "mig") == 0) {
		scope->card = scope - 1;
		while (scope->card->card)
			scope->card--;
	}
	scope_count++;
}

int scenario_read(void)
{
	int line = 0;
	char *rest;

	if (!read_text())
		return 0;
	scope_count = 0;
	open_scope(0, "machine", "-1");
	for (char *key = strtok_r(text, "\n", &rest); key; key = strtok_r(NULL, "\n", &rest)) {
		char *value = strchr(key, ' ');
		if (!value || line == sizeof lines / sizeof *lines)
			continue;
		*value++ = 0;
		lines[line].key = key;
		lines[line].value = value;
		if ((strcmp(key, "gpu") == 0 || strcmp(key, "mig") == 0) && scope_count < (int)(sizeof scopes / sizeof *scopes))
			open_scope(line, key, value);
		line++;
		scopes[scope_count - 1].end = line;
	}
	return 1;
}

nvmlDevice_t scenario_device(nvmlDevice_t card, int n)
{
	for (int i = 1; i < scope_count; i++)
		if (scopes[i].card == card && scopes[i].index == n)
			return &scopes[i];
	return NULL;
}

const char *scenario_value(nvmlDevice_t device, const char *key)
{
	if (device == MACHINE)
		device = scopes;
	for (int i = device->first; i < device->end; i++)
		if (strcmp(lines[i].key, key) == 0)
			return lines[i].value;
	return NULL;
}

nvmlReturn_t scenario_number(nvmlDevice_t device, const char *key, int n, long long *number)
{
	const char *value = scenario_value(device, key);
	if (!value)
		return NVML_ERROR_NOT_SUPPORTED;
	while (n-- > 0) {
		value += strcspn(value, " ");
		value += strspn(value, " ");
	}
	char *end;
	*number = strtoll(value, &end, 10);
	return end == value ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

/* names returns whether a key ("hang", "crash") names this call. */
static int names(const char *key, const char *function, nvmlDevice_t device)
{
	char name[128];
	int gpu;
	const char *call = scenario_value(MACHINE, key);

	if (!call || sscanf(call, "%127s %d", name, &gpu) != 2 || strcmp(name, function) != 0)
		return 0;
	return device == MACHINE || gpu < 0 || gpu == (device->card ? device->card : device)->index;
}

/* hang sleeps without end, in the system call that only waits for signals. */
static void hang(void)
{
	sigset_t mask;

	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (;;)
		sigsuspend(&mask);
}

nvmlReturn_t scenario_trouble(const char *function, nvmlDevice_t device)
{
	char key[160];
	long long code;

	if (names("hang", function, device))
		hang();
	if (names("crash", function, device))
		*(volatile int *)0 = 0;
	snprintf(key, sizeof key, "fail.%s", function);
	return scenario_number(device, key, 0, &code) == NVML_SUCCESS ? (nvmlReturn_t)code : NVML_SUCCESS;
}

nvmlReturn_t scenario_enter(const char *function, nvmlDevice_t device)
{
	if (scenario_users == 0)
		return NVML_ERROR_UNINITIALIZED;
	if (device != MACHINE && (device < scopes + 1 || device >= scopes + scope_count))
		return NVML_ERROR_INVALID_ARGUMENT;
	return scenario_trouble(function, device);
}
