// SPDX-License-Identifier: Apache-2.0

// Package secrettest creates tokens of every known format. Only tests import it.
package secrettest

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// These are the alphabets of the random parts. The source contains no complete token, so that
// secret scanners find none.
const (
	digits = "0123456789"
	hexes  = "0123456789abcdef"
	lowers = "abcdefghijklmnopqrstuvwxyz"
	uppers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnums = digits + lowers + uppers
	wordly = alnums + "_-"
	b64s   = alnums + "+/"
)

// part is a part of a token: a constant text, or random characters. The random characters are the
// secret.
type part struct {
	always string
	of     string
	size   int
}

func lit(text string) part            { return part{always: text} }
func draw(of string, size int) part   { return part{of: of, size: size} }
func shaped(parts ...part) []part     { return parts }
func after(p string, b part) []part   { return shaped(lit(p), b) }
func named(key string, b part) []part { return shaped(lit(key), b) }

// formats maps issuers to the formats of their tokens. A token without a recognizable format
// includes the variable name to which it is usually assigned.
var formats = map[string][]part{
	"GitHub personal":            after("gh"+"p_", draw(alnums, 36)),
	"GitHub OAuth":               after("gh"+"o_", draw(alnums, 36)),
	"GitHub user":                after("gh"+"u_", draw(alnums, 36)),
	"GitHub server":              after("gh"+"s_", draw(alnums, 36)),
	"GitHub refresh":             after("gh"+"r_", draw(alnums, 36)),
	"GitHub fine-grained":        shaped(lit("github"+"_pat_"), draw(alnums, 22), lit("_"), draw(alnums, 59)),
	"GitLab personal":            after("gl"+"pat-", draw(wordly, 20)),
	"GitLab routable":            shaped(lit("gl"+"pat-"), draw(wordly, 27), lit("."), draw(hexes, 9)),
	"GitLab deploy":              after("gl"+"dt-", draw(wordly, 20)),
	"GitLab job":                 shaped(lit("gl"+"cbt-"), draw(hexes, 2), lit("_"), draw(wordly, 20)),
	"GitLab trigger":             after("gl"+"ptt-", draw(hexes, 40)),
	"GitLab feed":                after("gl"+"ft-", draw(wordly, 20)),
	"GitLab feature flags":       after("gl"+"ffct-", draw(wordly, 20)),
	"GitLab mail":                after("gl"+"imt-", draw(wordly, 25)),
	"GitLab agent":               after("gl"+"agent-", draw(wordly, 50)),
	"GitLab application":         after("gl"+"oas-", draw(wordly, 64)),
	"GitLab SCIM":                after("gl"+"soat-", draw(wordly, 20)),
	"GitLab runner":              after("gl"+"rt-", draw(wordly, 20)),
	"GitLab runner registration": after("GR1348"+"941", draw(wordly, 20)),
	"GitLab session":             after("_gitlab_"+"session=", draw(lowers+digits, 32)),
	"Bitbucket application":      after("AT"+"BB", draw(alnums, 32)),
	"Atlassian":                  after("ATA"+"TT3", draw(wordly, 186)),
	"Atlassian old":              named("ATLASSIAN_TOKEN=", draw(lowers+digits, 24)),
	"npm":                        after("np"+"m_", draw(alnums, 36)),
	"npmrc":                      named("//registry.npmjs.org/:_authToken=", draw(hexes, 36)),
	"npmrc password":             named("_password=", draw(alnums, 24)),
	"PyPI":                       shaped(lit("pypi-"+"AgEIcHlwaS5vcmc"), draw(wordly, 100)),
	"RubyGems":                   after("rubygems"+"_", draw(hexes, 48)),
	"Clojars":                    after("CLOJARS"+"_", draw(lowers+digits, 60)),
	"NuGet":                      after("oy"+"2", draw(lowers+digits, 43)),
	"Docker personal":            after("dckr"+"_pat_", draw(wordly, 27)),
	"Docker organization":        after("dckr"+"_oat_", draw(wordly, 32)),
	"Docker configuration":       named(`{"auths": {"r.io": {"auth": "`, draw(b64s, 40)),
	"Artifactory":                after("AK"+"Cp", draw(alnums, 69)),
	"Artifactory reference":      after("cm"+"Vmd", draw(alnums, 59)),
	"Sourcegraph":                shaped(lit("sg"+"p_"), draw(hexes, 16), lit("_"), draw(hexes, 40)),
	"SonarQube":                  after("sq"+"u_", draw(hexes, 40)),
	"SonarQube project":          after("sq"+"p_", draw(hexes, 40)),
	"Buildkite":                  after("bk"+"ua_", draw(hexes, 40)),
	"CircleCI":                   shaped(lit("CCI"+"PAT_"), draw(alnums, 22), lit("_"), draw(hexes, 40)),
	"crates.io":                  after("ci"+"o", draw(alnums, 32)),
	"Codecov":                    named("CODECOV_TOKEN: ", draw(lowers+digits, 32)),
	"Travis":                     named("TRAVIS_TOKEN=", draw(lowers+digits, 22)),
	"Drone":                      named("DRONE_TOKEN=", draw(alnums, 32)),
	"Snyk":                       named("SNYK_TOKEN=", draw(hexes, 36)),

	"AWS key":                after("AK"+"IA", draw(uppers+"234567", 16)),
	"AWS temporary key":      after("AS"+"IA", draw(uppers+"234567", 16)),
	"AWS bearer":             after("AB"+"IA", draw(uppers+"234567", 16)),
	"AWS context":            after("AC"+"CA", draw(uppers+"234567", 16)),
	"AWS secret":             named("aws_secret_access_key = ", draw(b64s, 40)),
	"AWS secret by option":   named("--aws-secret-access-key ", draw(b64s, 40)),
	"AWS session":            named("AWS_SESSION_TOKEN=", draw(b64s, 300)),
	"AWS signature":          named("https://b.s3.amazonaws.com/x?X-Amz-Expires=60&X-Amz-Signature=", draw(hexes, 64)),
	"AWS credential":         named("https://b.s3.amazonaws.com/x?X-Amz-Credential=", draw(alnums, 20)),
	"AWS security token":     named("https://b.s3.amazonaws.com/x?X-Amz-Security-Token=", draw(alnums, 200)),
	"AWS header":             named("Authorization: AWS4-HMAC-SHA256 Credential=AKID/20240101/us-east-1/s3/aws4_request, Signature=", draw(hexes, 64)),
	"Bedrock":                after("AB"+"SK", draw(b64s, 120)),
	"Bedrock short":          after("bedrock-api-"+"key-", draw(b64s, 80)),
	"Google API":             after("AI"+"za", draw(wordly, 35)),
	"Google client":          after("GOC"+"SPX-", draw(wordly, 28)),
	"Google access":          after("ya"+"29.", draw(wordly, 120)),
	"Google refresh":         after("1/"+"/0", draw(wordly, 60)),
	"Google signature":       named("https://storage.googleapis.com/b/o?X-Goog-Signature=", draw(hexes, 256)),
	"Google service account": named(`"private_key_id": "`, draw(hexes, 40)),
	"Azure SAS":              named("https://a.blob.core.windows.net/c?sv=2022-11-02&sr=c&sig=", draw(alnums, 43)),
	"Azure storage":          named("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=", draw(b64s, 86)),
	"Azure shared key":       named("Endpoint=sb://a;SharedAccessKeyName=x;SharedAccessKey=", draw(b64s, 43)),
	"Azure client":           shaped(draw(alnums, 3), lit("8Q"+"~"), draw(wordly, 34)),
	"Azure DevOps":           named("AZURE_DEVOPS_EXT_PAT=", draw(lowers+digits, 52)),
	"Azure function":         named("https://f.azurewebsites.net/api/x?client_secret=", draw(alnums, 56)),
	"Alibaba":                after("LT"+"AI", draw(alnums, 20)),
	"Alibaba secret":         named("ALIBABA_SECRET_KEY=", draw(lowers+digits, 30)),
	"DigitalOcean OAuth":     after("do"+"o_v1_", draw(hexes, 64)),
	"DigitalOcean":           after("do"+"p_v1_", draw(hexes, 64)),
	"DigitalOcean refresh":   after("do"+"r_v1_", draw(hexes, 64)),
	"Yandex":                 after("AQ"+"VN", draw(wordly, 38)),
	"Yandex IAM":             shaped(lit("t1"+"."), draw(wordly, 20), lit("."), draw(wordly, 86)),
	"Heroku":                 after("HRKU"+"-AA", draw(wordly, 58)),
	"Heroku old":             named("HEROKU_API_KEY=", draw(hexes, 36)),
	"Scalingo":               after("tk-"+"us-", draw(wordly, 48)),
	"Fly":                    after("fo"+"1_", draw(wordly, 43)),
	"Fly macaroon":           after("fm"+"2_", draw(b64s, 120)),
	"Cloudflare origin":      shaped(lit("v1."+"0-"), draw(hexes, 24), lit("-"), draw(hexes, 146)),
	"Cloudflare":             named("CLOUDFLARE_API_TOKEN=", draw(wordly, 40)),
	"OpenShift":              after("sha256"+"~", draw(wordly, 43)),
	"Supabase":               after("sb"+"p_", draw(hexes, 40)),
	"Netlify":                after("nf"+"p_", draw(alnums, 36)),
	"PlanetScale":            after("pscale"+"_tkn_", draw(wordly, 43)),
	"PlanetScale OAuth":      after("pscale"+"_oauth_", draw(wordly, 43)),
	"PlanetScale password":   after("pscale"+"_pw_", draw(wordly, 43)),
	"ClickHouse":             after("4b"+"1d", draw(alnums, 38)),
	"Vault service":          after("hv"+"s.", draw(wordly, 95)),
	"Vault batch":            after("hv"+"b.", draw(wordly, 150)),
	"Vault old":              after("s"+".", draw(alnums, 24)),
	"Terraform":              shaped(draw(alnums, 14), lit(".atlas"+"v1."), draw(wordly, 65)),
	"Pulumi":                 after("pu"+"l-", draw(hexes, 40)),
	"Infracost":              after("ic"+"o-", draw(alnums, 32)),
	"Doppler":                after("dp."+"pt.", draw(lowers+digits, 43)),
	"Tailscale":              shaped(lit("ts"+"key-auth-"), draw(alnums, 16), lit("-"), draw(alnums, 32)),
	"Defined":                shaped(lit("dn"+"key-"), draw(lowers+digits, 26), lit("-"), draw(lowers+digits, 52)),
	"1Password service":      after("ops"+"_eyJ", draw(b64s, 250)),
	"1Password secret":       shaped(lit("A3"+"-"), draw(uppers+digits, 6), lit("-"), draw(uppers+digits, 11), lit("-"), draw(uppers+digits, 5), lit("-"), draw(uppers+digits, 5), lit("-"), draw(uppers+digits, 5)),
	"age":                    after("AGE-SECRET-"+"KEY-1", draw("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
	"Postman":                shaped(lit("PM"+"AK-"), draw(hexes, 24), lit("-"), draw(hexes, 34)),
	"Harness":                shaped(lit("pa"+"t."), draw(wordly, 22), lit("."), draw(alnums, 24), lit("."), draw(alnums, 20)),
	"Consul":                 named("CONSUL_HTTP_TOKEN=", draw(hexes, 36)),
	"Nomad":                  named("X-Nomad-Token: ", draw(hexes, 36)),
	"Kubernetes":             shaped(lit("ey"+"J"), draw(wordly, 60), lit("."), draw(wordly, 300), lit("."), draw(wordly, 200)),
	"kubeadm":                named("kubeadm join 10.0.0.1:6443 --token ", draw(lowers+digits, 22)),

	"Hugging Face":         after("h"+"f_", draw(lowers+uppers, 34)),
	"Hugging Face group":   after("api"+"_org_", draw(lowers+uppers, 34)),
	"OpenAI":               shaped(lit("s"+"k-"), draw(alnums, 20), lit("T3Blbk"+"FJ"), draw(alnums, 20)),
	"OpenAI project":       shaped(lit("s"+"k-proj-"), draw(wordly, 74), lit("T3Blbk"+"FJ"), draw(wordly, 74)),
	"OpenAI service":       after("s"+"k-svcacct-", draw(wordly, 120)),
	"OpenAI session":       after("ses"+"s-", draw(alnums, 40)),
	"Anthropic":            shaped(lit("s"+"k-ant-api03-"), draw(wordly, 93), lit("AA")),
	"Anthropic admin":      shaped(lit("s"+"k-ant-admin01-"), draw(wordly, 93), lit("AA")),
	"OpenRouter":           after("s"+"k-or-v1-", draw(hexes, 64)),
	"DeepSeek":             after("s"+"k-", draw(hexes, 32)),
	"Langfuse":             after("s"+"k-lf-", draw(hexes, 36)),
	"Groq":                 after("gs"+"k_", draw(alnums, 52)),
	"xAI":                  after("xa"+"i-", draw(alnums, 80)),
	"Perplexity":           after("pp"+"lx-", draw(alnums, 48)),
	"Replicate":            after("r"+"8_", draw(alnums, 37)),
	"NVIDIA":               after("nv"+"api-", draw(wordly, 64)),
	"NGC":                  named("NGC_API_KEY=", draw(lowers+digits, 84)),
	"Together":             after("tgp"+"_v1_", draw(wordly, 43)),
	"Fireworks":            after("f"+"w_", draw(alnums, 24)),
	"Weights & Biases":     named("WANDB_API_KEY=", draw(hexes, 40)),
	"Weights & Biases own": after("loca"+"l-", draw(hexes, 40)),
	"Weights & Biases v1":  after("wandb"+"_v1_", draw(wordly, 70)),
	"Comet":                named("COMET_API_KEY=", draw(alnums, 25)),
	"ClearML":              named("CLEARML_API_SECRET_KEY=", draw(alnums, 50)),
	"Neptune":              named("NEPTUNE_API_TOKEN=", draw(b64s, 120)),
	"MLflow":               named("MLFLOW_TRACKING_PASSWORD=", draw(lowers, 12)),
	"LangSmith":            shaped(lit("lsv2"+"_pt_"), draw(hexes, 32), lit("_"), draw(hexes, 10)),
	"Pinecone":             after("pc"+"sk_", draw(wordly, 70)),
	"Jina":                 after("jin"+"a_", draw(alnums, 60)),
	"Cohere":               named("CO_API_KEY=", draw(alnums, 40)),
	"Mistral":              named("mistral_api_key: ", draw(alnums, 32)),
	"Databricks":           after("da"+"pi", draw(hexes, 32)),
	"Kaggle":               named(`{"username":"me","key":"`, draw(hexes, 32)),
	"RunPod":               after("rp"+"a_", draw(alnums, 44)),
	"Prefect":              after("pn"+"u_", draw(alnums, 36)),
	"Cerebras":             after("cs"+"k-", draw(lowers+digits, 48)),

	"Slack bot":           shaped(lit("xo"+"xb-"), draw(digits, 12), lit("-"), draw(digits, 12), lit("-"), draw(alnums, 24)),
	"Slack user":          shaped(lit("xo"+"xp-"), draw(digits, 12), lit("-"), draw(digits, 12), lit("-"), draw(digits, 12), lit("-"), draw(hexes, 32)),
	"Slack workspace":     after("xo"+"xa-2-", draw(alnums, 40)),
	"Slack refresh":       after("xo"+"xr-", draw(alnums, 40)),
	"Slack old":           shaped(lit("xo"+"xs-"), draw(digits, 10), lit("-"), draw(digits, 10), lit("-"), draw(hexes, 10)),
	"Slack configuration": after("xo"+"xe.xoxp-1-", draw(uppers+digits, 165)),
	"Slack app":           shaped(lit("xa"+"pp-1-"), draw(uppers+digits, 11), lit("-"), draw(digits, 13), lit("-"), draw(hexes, 64)),
	"Slack webhook":       shaped(lit("https://hooks.slack"+".com/services/T"), draw(uppers+digits, 9), lit("/B"), draw(uppers+digits, 9), lit("/"), draw(alnums, 24)),
	"Discord webhook":     shaped(lit("https://discord"+".com/api/webhooks/"), draw(digits, 18), lit("/"), draw(wordly, 68)),
	"Discord bot":         named("DISCORD_TOKEN=", draw(wordly, 59)),
	"Teams webhook":       shaped(lit("https://x.webhook.office"+".com/webhookb2/"), draw(hexes, 36), lit("@"), draw(hexes, 36), lit("/IncomingWebhook/"), draw(hexes, 32)),
	"Google Chat":         shaped(lit("https://chat.googleapis.com/v1/spaces/x/messages?key="), draw(wordly, 39), lit("&token="), draw(wordly, 43)),
	"Telegram":            shaped(draw(digits, 10), lit(":A"+"A"), draw(wordly, 33)),
	"Twilio":              after("S"+"K", draw(hexes, 32)),
	"Twilio token":        named("TWILIO_AUTH_TOKEN=", draw(hexes, 32)),
	"SendGrid":            shaped(lit("S"+"G."), draw(wordly, 22), lit("."), draw(wordly, 43)),
	"Brevo":               shaped(lit("xkey"+"sib-"), draw(hexes, 64), lit("-"), draw(alnums, 16)),
	"Mailgun":             after("ke"+"y-", draw(hexes, 32)),
	"Mailchimp":           shaped(draw(hexes, 32), lit("-u"+"s12")),
	"Stripe":              after("sk"+"_live_", draw(alnums, 24)),
	"Stripe test":         after("sk"+"_test_", draw(alnums, 24)),
	"Stripe restricted":   after("rk"+"_live_", draw(alnums, 24)),
	"Stripe webhook":      after("whs"+"ec_", draw(alnums, 32)),
	"Square":              after("sq0"+"atp-", draw(wordly, 22)),
	"Square secret":       after("sq0"+"csp-", draw(wordly, 43)),
	"Square access":       after("EA"+"AA", draw(wordly, 60)),
	"Shopify":             after("shp"+"at_", draw(hexes, 32)),
	"Shopify custom":      after("shp"+"ca_", draw(hexes, 32)),
	"Shopify private":     after("shp"+"pa_", draw(hexes, 32)),
	"Shopify shared":      after("shp"+"ss_", draw(hexes, 32)),
	"Shippo":              after("shippo"+"_live_", draw(hexes, 40)),
	"Flutterwave":         shaped(lit("FLWSECK"+"_TEST-"), draw("abcdefgh"+digits, 32), lit("-X")),
	"EasyPost":            after("EZ"+"AK", draw(alnums, 54)),
	"Duffel":              after("duffel"+"_live_", draw(wordly, 43)),
	"Plaid":               after("access-"+"production-", draw(hexes, 36)),
	"Facebook page":       after("EAA"+"C", draw(alnums, 120)),
	"Facebook app":        shaped(draw(digits, 15), lit("|"), draw(wordly, 27)),
	"Twitter bearer":      after("AAAAAAAAAAA"+"AAAAAAAAAAA", draw(alnums, 90)),
	"Twitch":              named("twitch_client_secret=", draw(lowers+digits, 30)),
	"Okta":                named("Authorization: SSWS ", draw(wordly, 42)),

	"Grafana cloud":       after("gl"+"c_", draw(b64s, 80)),
	"Grafana service":     shaped(lit("gl"+"sa_"), draw(alnums, 32), lit("_"), draw(hexes, 8)),
	"New Relic":           after("NR"+"AK-", draw(uppers+digits, 27)),
	"New Relic insert":    after("NR"+"II-", draw(wordly, 32)),
	"New Relic browser":   after("NR"+"JS-", draw(hexes, 19)),
	"Datadog":             named("DD_API_KEY=", draw(hexes, 32)),
	"Sentry organization": shaped(lit("sntrys"+"_"), draw(b64s, 120), lit("_"), draw(b64s, 43)),
	"Sentry user":         after("sntryu"+"_", draw(hexes, 64)),
	"Dynatrace":           shaped(lit("dt0"+"c01."), draw(uppers+digits, 24), lit("."), draw(uppers+digits, 64)),
	"Linear":              after("lin"+"_api_", draw(alnums, 40)),
	"Notion":              shaped(lit("nt"+"n_"), draw(digits, 11), draw(alnums, 35)),
	"Notion old":          after("secre"+"t_", draw(alnums, 43)),
	"Figma":               after("fig"+"d_", draw(wordly, 40)),
	"Typeform":            after("tf"+"p_", draw(wordly, 59)),
	"Airtable":            shaped(lit("pa"+"t"), draw(alnums, 14), lit("."), draw(hexes, 64)),
	"ReadMe":              after("rdm"+"e_", draw(lowers+digits, 70)),
	"Frame.io":            after("fio"+"-u-", draw(wordly, 64)),
	"Octopus":             after("AP"+"I-", draw(uppers+digits, 26)),
	"Adobe":               after("p8"+"e-", draw(alnums, 32)),
	"Dropbox":             after("s"+"l.", draw(wordly, 135)),
	"HubSpot":             after("pat-"+"na1-", draw(hexes, 36)),
	"SettleMint":          after("sm"+"_aat_", draw(alnums, 16)),
	"MaxMind":             shaped(draw(alnums, 6), lit("_"), draw(alnums, 29), lit("_m"+"mk")),

	"password of an address":       shaped(lit("postgres://me:"), draw(alnums, 12), lit("@db:5432/x")),
	"password with a sign":         shaped(lit("https://me:"), draw(alnums, 6), lit("@"), draw(alnums, 6), lit("@host/x")),
	"token of an address":          shaped(lit("https://"), draw(alnums, 20), lit("@host/x.git")),
	"token in pip's index":         shaped(lit("--index-url https://__token__:"), draw(alnums, 20), lit("@pypi.corp/simple")),
	"proxy":                        shaped(lit("http_proxy=http://me:"), draw(alnums, 10), lit("@proxy:3128")),
	"proxy of nc":                  shaped(lit("nc -X connect -x me:"), draw(lowers+digits, 9), lit("@proxy:3128 %h %p")),
	"proxy of ncat":                named("ncat --proxy proxy:8080 --proxy-auth ", draw(alnums, 12)),
	"user of curl":                 shaped(lit("curl -u me:"), draw(alnums, 10), lit(" https://host")),
	"sshpass":                      shaped(lit("sshpass -p "), draw(alnums, 10), lit(" ssh %h")),
	"sshpass joined":               shaped(lit("sshpass -p"), draw(alnums, 10), lit(" ssh %h")),
	"netrc":                        named("machine github.com login me password ", draw(lowers, 10)),
	"bearer":                       named("curl -H 'Authorization: Bearer ", draw(alnums, 32)),
	"basic":                        named("Authorization: Basic ", draw(b64s, 24)),
	"proxy header":                 named("Proxy-Authorization: Basic ", draw(b64s, 24)),
	"API header":                   named("X-Api-Key: ", draw(hexes, 32)),
	"cookie":                       named("Cookie: session=", draw(hexes, 32)),
	"query":                        named("https://host/x?a=1&token=", draw(lowers+digits, 12)),
	"query in the middle":          shaped(lit("https://host/x?access_token="), draw(lowers+digits, 12), lit("&b=2")),
	"password in quotes":           named(`"password": "`, draw(lowers, 10)),
	"password of python":           named(`connect(user='me', password='`, draw(lowers, 10)),
	"password in JSON in a string": shaped(lit(`{\"password\": \"`), draw(lowers, 10), lit(`\"}`)),
	"password of YAML":             named("db_password: ", draw(lowers, 10)),
	"password of an option":        named("train.py --password ", draw(lowers, 10)),
	"password of an assignment":    named("export DB_PASSWORD=", draw(lowers, 10)),
	"password of MySQL":            named("MYSQL_PWD=", draw(lowers, 10)),
	"password of Postgres":         named("host=db user=me password=", draw(lowers, 10)),
	"password of ODBC":             named("Server=db;User Id=me;Password=", draw(lowers, 10)),
	"passphrase":                   named("--passphrase=", draw(lowers, 10)),
	"pat":                          named("deepspeed train.py --pat ", draw(lowers+digits, 12)),
	"-k":                           named("deepspeed train.py -k ", draw(alnums, 12)),
	"RSA key":                      shaped(lit("-----BEGIN RSA PRIVATE "+"KEY-----\n"), draw(b64s, 64), lit("\n"), draw(b64s, 64), lit("\n-----END RSA PRIVATE "+"KEY-----")),
	"OpenSSH key":                  shaped(lit("-----BEGIN OPENSSH PRIVATE "+"KEY-----\n"), draw(b64s, 70), lit("\n-----END OPENSSH PRIVATE "+"KEY-----")),
	"key in one line":              shaped(lit(`"-----BEGIN PRIVATE `+`KEY-----\n`), draw(b64s, 64), lit(`\n-----END PRIVATE `+`KEY-----\n"`)),
	"key without its end":          shaped(lit("-----BEGIN EC PRIVATE "+"KEY-----\n"), draw(b64s, 64)),
	"line of a key":                shaped(draw(b64s, 64)),
	"JSON Web Token":               shaped(lit("ey"+"J"), draw(wordly, 17), lit("."), draw(wordly, 40), lit("."), draw(wordly, 43)),
	"nobody's":                     shaped(draw(alnums, 40)),
	"nobody's, web":                shaped(draw(wordly, 43)),
	"nobody's, in a query":         named("https://host/x?a=", draw(alnums, 43)),
}

// Token is a text that contains a secret, and the part of the text that must not be shown.
type Token struct {
	Format, Text string
	Secrets      []string
}

// Tokens returns one random token of every format, sorted by name. The same seed gives the same
// tokens.
func Tokens(seed uint64) (all []Token) {
	for i, name := range slices.Sorted(maps.Keys(formats)) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		token := Token{Format: name}
		for _, p := range formats[name] {
			body := make([]byte, p.size)
			for i := range body {
				body[i] = p.of[random.IntN(len(p.of))]
			}
			token.Text += p.always + string(body)
			if p.size >= shortestSecret {
				token.Secrets = append(token.Secrets, string(body))
			}
		}
		all = append(all, token)
	}
	return all
}
