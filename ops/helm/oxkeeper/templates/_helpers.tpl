{{- define "oxkeeper.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "oxkeeper.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "oxkeeper.labels" -}}
{{ include "oxkeeper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "oxkeeper.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "oxkeeper.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/*
The settings of zoo.cfg: those of the chart, replaced by those of the values.
*/}}
{{- define "oxkeeper.config" -}}
{{- $config := dict "dataDir" "/data" "standaloneEnabled" (eq (int .Values.replicas) 1) "quorumListenOnAllIPs" true -}}
{{- if .Values.persistence.log.enabled -}}
{{- $_ := set $config "dataLogDir" "/datalog" -}}
{{- end -}}
{{- if .Values.metrics.enabled -}}
{{- $_ := set $config "metricsProvider.className" "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider" -}}
{{- $_ := set $config "metricsProvider.httpPort" 7000 -}}
{{- end -}}
{{- if .Values.tls.client.enabled -}}
{{- $_ := set $config "secureClientPort" 2281 -}}
{{- $_ := set $config "ssl.keyStore.location" (printf "/tls/client/%s" .Values.tls.client.storeKey) -}}
{{- $_ := set $config "ssl.keyStore.type" .Values.tls.client.storeType -}}
{{- $_ := set $config "ssl.trustStore.location" (printf "/tls/client/%s" .Values.tls.client.trustKey) -}}
{{- $_ := set $config "ssl.trustStore.type" .Values.tls.client.storeType -}}
{{- $_ := set $config "ssl.clientAuth" .Values.tls.client.clientAuth -}}
{{- $_ := set $config "client.certReload" true -}}
{{- end -}}
{{- if .Values.tls.quorum.enabled -}}
{{- $_ := set $config "sslQuorum" true -}}
{{- $_ := set $config "ssl.quorum.keyStore.location" (printf "/tls/quorum/%s" .Values.tls.quorum.storeKey) -}}
{{- $_ := set $config "ssl.quorum.keyStore.type" .Values.tls.quorum.storeType -}}
{{- $_ := set $config "ssl.quorum.trustStore.location" (printf "/tls/quorum/%s" .Values.tls.quorum.trustKey) -}}
{{- $_ := set $config "ssl.quorum.trustStore.type" .Values.tls.quorum.storeType -}}
{{- $_ := set $config "sslQuorumReloadCertFiles" true -}}
{{- end -}}
{{- /* Not merge, which takes false and 0 for missing values. */ -}}
{{- range $key, $value := .Values.config -}}
{{- $_ := set $config $key $value -}}
{{- end -}}
{{- range $key := keys $config | sortAlpha }}
{{- $value := get $config $key }}
{{ $key }}={{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{- $name := include "oxkeeper.fullname" . -}}
{{- $plain := ternary "127.0.0.1:2181" "2181" .Values.tls.client.enabled -}}
{{- range $ordinal := until (int .Values.replicas) }}
server.{{ add1 $ordinal }}={{ $name }}-{{ $ordinal }}.{{ $name }}-headless.{{ $.Release.Namespace }}.svc.{{ $.Values.clusterDomain }}:2888:3888;{{ $plain }}
{{- end }}
{{- end -}}
