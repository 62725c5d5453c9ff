{{/* The user name that the API server knows the operator by. */}}
{{- define "gatewright.operatorUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.serviceAccount.name }}
{{- end }}

{{/* Labels of everything that the chart makes. */}}
{{- define "gatewright.labels" -}}
app.kubernetes.io/name: gatewright
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* metadata of a cluster-scoped object of a fixed name: include "gatewright.meta" (dict "root" $ "name" "…") */}}
{{- define "gatewright.meta" -}}
metadata:
  name: {{ .name }}
  labels:
    {{- include "gatewright.labels" .root | nindent 4 }}
{{- end }}

{{/* A list of user names as a CEL list. */}}
{{- define "gatewright.celList" -}}
[{{ range $i, $name := . }}{{ if $i }}, {{ end }}'{{ $name }}'{{ end }}]
{{- end }}

{{/* The match condition that lets the operator through. */}}
{{- define "gatewright.notOperator" -}}
- name: not-operator
  expression: "request.userInfo.username != '{{ include "gatewright.operatorUser" . }}'"
{{- end }}
