{{- define "amita-csi.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "amita-csi.labels" -}}
app.kubernetes.io/name: amita-csi
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "amita-csi.selector" -}}
app.kubernetes.io/name: amita-csi
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{/* An image by its digest; by a tag only where that is allowed. */}}
{{- define "amita-csi.image" -}}
{{- $image := .image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else if .root.Values.requireDigests -}}
{{ fail (printf "image %s has no digest: say it, or set requireDigests to false" $image.repository) }}
{{- else -}}
{{ $image.repository }}:{{ required (printf "image %s has neither a digest nor a tag" $image.repository) $image.tag }}
{{- end -}}
{{- end -}}

{{/* What every container of the controller may do: nothing. */}}
{{- define "amita-csi.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* A sidecar of the controller. */}}
{{- define "amita-csi.sidecar" -}}
- name: {{ .name }}
  image: {{ include "amita-csi.image" (dict "root" .root "image" .sidecar.image) }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args:
    - --csi-address=/csi/csi.sock
    {{- range .args }}
    - {{ . | quote }}
    {{- end }}
    {{- if .port }}
    - --http-endpoint=:{{ .port }}
    {{- /* By itself a sidecar asks Kubernetes five things a second: hundreds of claims wait for minutes then. */}}
    - --kube-api-qps=50
    - --kube-api-burst=100
    {{- end }}
    {{- range .sidecar.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  {{- if .env }}
  env:
    - name: NAMESPACE
      valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
    - name: POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- end }}
  {{- if .port }}
  ports:
    - {name: {{ .name }}, containerPort: {{ .port }}, protocol: TCP}
  livenessProbe:
    httpGet: {path: /healthz/leader-election, port: {{ .name }}}
    initialDelaySeconds: 10
    periodSeconds: 20
    timeoutSeconds: 10
  {{- end }}
  securityContext:
    {{- include "amita-csi.restricted" . | nindent 4 }}
  resources:
    {{- toYaml .root.Values.sidecars.resources | nindent 4 }}
  volumeMounts:
    - {name: socket, mountPath: /csi}
{{- end -}}

{{/* The sidecar that serves changed blocks: every pod of the controller has one and none leads, for it keeps nothing. Its HTTP server is started when the driver has answered, so it is asked whether it serves, and not whether it lives: without its driver it ends by itself. */}}
{{- define "amita-csi.snapshot-metadata" -}}
{{- $own := .Values.sidecars.snapshotMetadata -}}
- name: snapshot-metadata
  image: {{ include "amita-csi.image" (dict "root" . "image" $own.image) }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - --csi-address=/csi/csi.sock
    - --port=50051
    - --tls-cert=/etc/snapshot-metadata/tls.crt
    - --tls-key=/etc/snapshot-metadata/tls.key
    - --http-endpoint=:9815
    - --kube-api-qps=50
    - --kube-api-burst=100
    {{- range $own.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  ports:
    - {name: changed-blocks, containerPort: 50051, protocol: TCP}
    - {name: snapshot-meta, containerPort: 9815, protocol: TCP}
  readinessProbe:
    httpGet: {path: /health, port: snapshot-meta}
    initialDelaySeconds: 5
    periodSeconds: 10
    timeoutSeconds: 5
  securityContext:
    {{- include "amita-csi.restricted" . | nindent 4 }}
  resources:
    {{- toYaml .Values.sidecars.resources | nindent 4 }}
  volumeMounts:
    - {name: socket, mountPath: /csi}
    - {name: snapshot-metadata-tls, mountPath: /etc/snapshot-metadata, readOnly: true}
{{- end -}}
