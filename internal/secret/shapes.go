// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"strings"

	"preflight/internal/lazyregexp"
)

// The character sets that tokens use.
var (
	hex    = alphabet("0123456789abcdefABCDEF")
	base32 = alphabet("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
	alnum  = alphabet("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	word   = alnum.and("_-")
	b64    = alnum.and("+/=_-")
	dotted = word.and(".=~+/%")
)

type characters [256]bool

func alphabet(all string) *characters {
	var c characters
	return c.and(all)
}

func (c *characters) and(more string) *characters {
	both := *c
	for i := range len(more) {
		both[more[i]] = true
	}
	return &both
}

// shape describes a kind of token: its prefix, which stays readable to identify the token, and its
// minimum number of characters.
type shape struct {
	prefix string
	of     *characters
	least  int
	wordy  bool // natural words may begin with the prefix too, so a token must have digits, or capitals inside
}

// shapes lists the tokens with a known prefix.
//
// Source: the rules of gitleaks (gitleaks/gitleaks, commit b58d3f1, config/gitleaks.toml), with
// lengths rounded down, because a slightly shorter token should be hidden too.
var shapes = []shape{
	// Tokens of code and artifact hosts.
	{"ghp_", alnum, 20, false}, {"gho_", alnum, 20, false}, {"ghu_", alnum, 20, false}, {"ghs_", alnum, 20, false}, {"ghr_", alnum, 20, false},
	{"github_pat_", word, 22, false},
	{"glpat-", dotted, 18, false}, {"gldt-", word, 18, false}, {"glcbt-", word, 18, false}, {"glptt-", hex, 32, false}, {"glft-", word, 18, false},
	{"glffct-", word, 18, false}, {"glimt-", word, 18, false}, {"glagent-", word, 32, false}, {"gloas-", word, 32, false}, {"glsoat-", word, 18, false},
	{"glrt-", dotted, 18, false}, {"glrtr-", dotted, 18, false}, {"GR1348941", word, 18, false}, {"_gitlab_session=", alnum, 20, false},
	{"ATBB", alnum, 28, false}, {"ATATT3", b64, 60, false}, {"ATCTT3", b64, 60, false},
	{"npm_", alnum, 30, false}, {"pypi-", word, 50, false}, {"rubygems_", hex, 40, false}, {"CLOJARS_", alnum, 50, false}, {"oy2", alnum, 43, false},
	{"dckr_pat_", word, 20, false}, {"dckr_oat_", word, 20, false}, {"AKCp", alnum, 60, false}, {"cmVmd", alnum, 55, false},
	{"sgp_", word, 30, false}, {"squ_", alnum, 36, false}, {"sqp_", alnum, 36, false}, {"sqa_", alnum, 36, false},
	{"bkua_", hex, 32, false}, {"CCIPAT_", word, 30, false}, {"cio", alnum, 32, true},
	// Tokens of clouds.
	{"AKIA", base32, 16, false}, {"ASIA", base32, 16, false}, {"ABIA", base32, 16, false}, {"ACCA", base32, 16, false}, {"ABSK", b64, 80, false},
	{"bedrock-api-key-", b64, 20, false},
	{"AIza", word, 30, false}, {"GOCSPX-", word, 20, false}, {"ya29.", dotted, 30, false}, {"1//0", word, 30, false},
	{"LTAI", alnum, 16, false}, {"doo_v1_", hex, 40, false}, {"dop_v1_", hex, 40, false}, {"dor_v1_", hex, 40, false},
	{"AQVN", word, 32, false}, {"YCAJ", word, 20, false}, {"t1.", dotted, 60, false}, {"HRKU-", word, 30, false}, {"tk-us-", word, 40, false},
	{"fo1_", word, 40, false}, {"fm1a_", b64, 60, false}, {"fm1r_", b64, 60, false}, {"fm2_", b64, 60, false},
	{"v1.0-", word, 100, false}, {"sha256~", word, 40, false}, {"ovh", alnum, 40, true}, {"sbp_", hex, 32, false}, {"nfp_", alnum, 32, false},
	{"pscale_tkn_", dotted, 30, false}, {"pscale_oauth_", dotted, 30, false}, {"pscale_pw_", dotted, 30, false},
	{"hvs.", word, 20, false}, {"hvb.", word, 40, false}, {"hvr.", word, 20, false}, {"s.", alnum, 24, true},
	{"pul-", hex, 32, false}, {"ico-", alnum, 32, true}, {"dp.pt.", alnum, 36, false}, {"dp.st.", dotted, 36, false}, {"tskey-", word, 20, false},
	{"dnkey-", b64, 40, false}, {"ops_eyJ", b64, 40, false}, {"AGE-SECRET-KEY-1", alnum, 40, false}, {"PMAK-", word, 40, false},
	// Tokens of services for models and data sets.
	{"hf_", alnum, 30, false}, {"api_org_", alnum, 30, false}, {"sk-", word, 20, true}, {"pk-lf-", word, 30, false}, {"sess-", alnum, 32, false},
	{"gsk_", alnum, 40, false}, {"xai-", alnum, 40, false}, {"pplx-", alnum, 40, false}, {"r8_", alnum, 30, false}, {"nvapi-", word, 40, false},
	{"tgp_v1_", word, 30, false}, {"fw_", alnum, 22, true}, {"esecret_", alnum, 20, false}, {"wandb_v1_", word, 30, false}, {"local-", hex, 40, false},
	{"lsv2_pt_", word, 30, false}, {"lsv2_sk_", word, 30, false}, {"ls__", alnum, 30, false}, {"pcsk_", word, 30, false}, {"jina_", alnum, 40, false},
	{"dapi", hex, 32, false}, {"KGAT_", hex, 30, false}, {"rpa_", alnum, 40, false}, {"pnu_", alnum, 30, false}, {"astro", word, 60, true}, {"csk-", alnum, 40, false},
	// Tokens of messaging and payment services.
	{"xoxb-", word, 18, false}, {"xoxp-", word, 18, false}, {"xoxa-", word, 8, true}, {"xoxr-", word, 8, true}, {"xoxs-", word, 18, false}, {"xoxo-", word, 18, false},
	{"xoxe-", word, 18, false}, {"xoxe.xox", word, 30, false}, {"xapp-", word, 18, false}, {"SG.", dotted, 50, false}, {"xkeysib-", word, 60, false},
	{"key-", hex, 32, false}, {"SK", hex, 32, false}, {"sk_live_", alnum, 10, false}, {"sk_test_", alnum, 10, false}, {"sk_prod_", alnum, 10, false},
	{"rk_live_", alnum, 10, false}, {"rk_test_", alnum, 10, false}, {"rk_prod_", alnum, 10, false}, {"whsec_", b64, 24, false},
	{"sq0atp-", word, 20, false}, {"sq0csp-", word, 20, false}, {"EAAA", word, 50, false}, {"EAAC", alnum, 80, false}, {"EAAM", alnum, 80, false},
	{"shpat_", hex, 30, false}, {"shpca_", hex, 30, false}, {"shppa_", hex, 30, false}, {"shpss_", hex, 30, false}, {"shippo_live_", hex, 36, false}, {"shippo_test_", hex, 36, false},
	{"FLWSECK_TEST-", word, 12, false}, {"FLWSECK-", word, 12, false}, {"EZAK", alnum, 50, false}, {"EZTK", alnum, 50, false},
	{"duffel_live_", b64, 36, false}, {"duffel_test_", b64, 36, false}, {"access-production-", word, 36, false}, {"access-sandbox-", word, 36, false},
	// Tokens of services for monitoring, planning and writing.
	{"glc_", b64, 32, false}, {"glsa_", word, 32, false}, {"NRAK-", alnum, 24, false}, {"NRII-", word, 30, false}, {"NRJS-", hex, 16, false}, {"NRRA-", alnum, 30, false},
	{"sntrys_", b64, 40, false}, {"sntryu_", hex, 40, false}, {"dt0c01.", dotted, 60, false}, {"dt0s16.", dotted, 60, false},
	{"lin_api_", alnum, 36, false}, {"ntn_", alnum, 40, false}, {"secret_", alnum, 40, false}, {"figd_", word, 30, false}, {"tfp_", dotted, 50, false},
	{"rdme_", alnum, 60, false}, {"fio-u-", b64, 60, false}, {"API-", alnum, 26, true}, {"p8e-", alnum, 30, false}, {"sl.", b64, 60, false},
	{"pat-na1-", word, 30, false}, {"pat-eu1-", word, 30, false}, {"sm_aat_", alnum, 16, false}, {"sm_pat_", alnum, 16, false}, {"sm_sat_", alnum, 16, false},
	{"AAAAAAAAAAAAAAAAAAAAAA", dotted, 60, false}, {"dsapi_", alnum, 30, false}, {"phx_", alnum, 30, false}, {"phc_", alnum, 30, false},
}

// byFirst lists the shapes for each possible first byte of their prefix.
var byFirst = func() (first [256][]shape) {
	for _, s := range shapes {
		first[s.prefix[0]] = append(first[s.prefix[0]], s)
	}
	return first
}()

// hideShapes hides tokens with a known prefix or form.
func hideShapes(text string) string {
	for _, m := range made {
		if len(text) >= shortestMade && strings.Contains(text, m.literal) {
			text = m.pattern.ReplaceAllString(text, "${1}"+Hidden)
		}
	}
	var out strings.Builder
	done := 0
	for i := 0; i < len(text); i++ {
		if i > done && isAlnum(text[i-1]) {
			continue
		}
		if length, body := token(text[i:]); length > 0 {
			out.WriteString(text[done : i+body])
			out.WriteString(Hidden)
			done = i + length
			i = done - 1
		}
	}
	if done == 0 {
		return text
	}
	return out.String() + text[done:]
}

// token returns the length of the token at the start of a text, and the length of its readable
// prefix.
func token(text string) (length, body int) {
	for _, s := range byFirst[text[0]] {
		if !strings.HasPrefix(text, s.prefix) {
			continue
		}
		end := len(s.prefix)
		for end < len(text) && s.of[text[end]] {
			end++
		}
		if size := end - len(s.prefix); size < s.least {
			continue
		} else if made := makeup(text[len(s.prefix):end]); !s.wordy || made.digits > 0 || 4*made.turns > size {
			return end, len(s.prefix)
		}
	}
	return 0, 0
}

const shortestMade = 24

// made lists tokens without a prefix of their own. Each contains a literal by which it is found.
// The text that the first group matches stays readable.
//
// Source: as for shapes, and RFC 7519 for JSON Web Tokens.
var made = []struct {
	literal string
	pattern *lazyregexp.Regexp
}{
	{"eyJ", lazyregexp.New(`\b(eyJ)[\w-]{8,}\.[\w-]{8,}[\w.-]*`)},
	{"pat", lazyregexp.New(`\b(pat)[A-Za-z0-9]{14}\.[a-f0-9]{40,}`)},
	{"at.", lazyregexp.New(`\b([ps]at\.)[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}`)},
	{":AA", lazyregexp.New(`()\b\d{5,16}:AA[\w-]{30,}`)},
	{"Q~", lazyregexp.New(`()[\w~.-]{3}\dQ~[\w~.-]{31,34}`)},
	{".atlasv1.", lazyregexp.New(`()[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{50,}`)},
	{"|", lazyregexp.New(`()\b\d{15,16}\|[\w-]{27,40}`)},
	{"-us", lazyregexp.New(`()\b[a-f0-9]{32}-us\d{1,2}\b`)},
	{"_mmk", lazyregexp.New(`()\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b`)},
	{"A3-", lazyregexp.New(`\b(A3-)[A-Z0-9]{6}-[A-Z0-9-]{20,}`)},
	{"hooks.slack.com", lazyregexp.New(`(hooks\.slack\.com/[a-z]+/)[^\s"'\\…]+`)},
	{"/api/webhooks/", lazyregexp.New(`(/api/webhooks/)[^\s"'\\…]+`)},
	{"webhook.office.com", lazyregexp.New(`(webhook\.office\.com/)[^\s"'\\…]+`)},
}

// holdsToken reports whether a text without signs may contain a token, because it contains a word
// that is long enough.
func holdsToken(text string) bool {
	run := 0
	for i := range len(text) {
		if !isNameByte(text[i]) {
			run = 0
		} else if run++; run >= 16 {
			return true
		}
	}
	return false
}
