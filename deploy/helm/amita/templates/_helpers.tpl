{{- define "amita.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "amita.labels" -}}
app.kubernetes.io/name: amita
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "amita.selector" -}}
app.kubernetes.io/name: amita
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{/* An image by its digest; by a tag only where that is allowed. */}}
{{- define "amita.image" -}}
{{- $image := .image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else if .root.Values.requireDigests -}}
{{ fail (printf "image %s has no digest: say it, or set requireDigests to false" $image.repository) }}
{{- else -}}
{{ $image.repository }}:{{ required (printf "image %s has neither a digest nor a tag" $image.repository) $image.tag }}
{{- end -}}
{{- end -}}

{{/* What every container may do: nothing. */}}
{{- define "amita.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Where the metadata is. */}}
{{- define "amita.metadata" -}}
{{- if .Values.metadata.endpoints -}}
{{ join "," .Values.metadata.endpoints }}
{{- else -}}
https://{{ include "amita.name" . }}-metadata:2379
{{- end -}}
{{- end -}}

{{/* Where the authority serves; nothing with certificates of cert-manager. */}}
{{- define "amita.authority" -}}
{{- if not .Values.identities.certManager.enabled -}}
{{ .Values.authority.address | default (printf "%s-authority:7600" (include "amita.name" .)) }}
{{- end -}}
{{- end -}}

{{/* The paths of a node's disks. */}}
{{- define "amita.stores" -}}
{{- if .Values.nodes.devices -}}
{{ join "," .Values.nodes.devices }}
{{- else -}}
{{- $paths := list -}}
{{- range $number, $disk := .Values.nodes.disks -}}
{{- $paths = append $paths (printf "/dev/amita/disk-%d" $number) -}}
{{- end -}}
{{ join "," $paths }}
{{- end -}}
{{- end -}}

{{/* What the pod of each part is: nobody in particular. */}}
{{- define "amita.pod" -}}
serviceAccountName: {{ include "amita.name" . }}
# It asks Kubernetes nothing.
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.nodes.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodes.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodes.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "amita.nobody" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
# Millions of files are none of ours: once is enough.
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* A container of this image: its name, and the script that it runs. */}}
{{- define "amita.container" -}}
image: {{ include "amita.image" (dict "root" . "image" .Values.image) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{- define "amita.podip" -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- end -}}

{{/* The container that gets the identity, and the one that follows it. */}}
{{- define "amita.identity" -}}
{{- $root := .root -}}
{{- $followed := ternary (list false true) (list false) $root.Values.identities.certManager.enabled -}}
{{- range $follow := $followed }}
- name: {{ ternary "identity-renewal" "identity" $follow }}
  {{- include "amita.container" $root | nindent 2 }}
  command: [sh, /scripts/identity.sh]
  args: ["{{ $.identity }}"{{ if $follow }}, --follow{{ end }}]
  {{- if $follow }}
  restartPolicy: Always
  {{- end }}
  env:
    - name: POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    {{- with include "amita.authority" $root }}
    - {name: AMITA_CA_SERVER, value: {{ . | quote }}}
    - {name: JOIN_SECRET, value: {{ $root.Values.identities.tokenSecret | quote }}}
    {{- end }}
  securityContext:
    {{- include "amita.restricted" $root | nindent 4 }}
  resources:
    requests: {cpu: 10m, memory: 32Mi}
    limits: {memory: 128Mi}
  volumeMounts:
    - {name: scripts, mountPath: /scripts, readOnly: true}
    - {name: state, mountPath: /state}
    - {name: tmp, mountPath: /tmp}
    {{- if $root.Values.identities.certManager.enabled }}
    - {name: certificates, mountPath: /certificates, readOnly: true}
    {{- else }}
    - {name: join, mountPath: /join, readOnly: true}
    {{- end }}
{{- end }}
{{- end -}}

{{/* The volumes that every pod has; where the identity is from. */}}
{{- define "amita.volumes" -}}
{{- $root := .root -}}
- name: scripts
  configMap: {name: {{ include "amita.name" $root }}-scripts, defaultMode: 0555}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- if .identity }}
{{- if $root.Values.identities.certManager.enabled }}
{{- $made := $root.Values.identities.certManager }}
# The key is made on this machine, for this pod alone.
- name: certificates
  csi:
    driver: csi.cert-manager.io
    readOnly: true
    volumeAttributes:
      csi.cert-manager.io/issuer-name: {{ required "identities.certManager.issuer is needed" $made.issuer | quote }}
      csi.cert-manager.io/issuer-kind: {{ $made.issuerKind | quote }}
      csi.cert-manager.io/uri-sans: "amita://{{ required "identities.certManager needs authority.cluster, the cluster's id" $root.Values.authority.cluster }}/node/{{ .identity }}"
      csi.cert-manager.io/duration: {{ $made.duration | quote }}
      csi.cert-manager.io/key-encoding: PKCS8
      csi.cert-manager.io/key-usages: digital signature,server auth,client auth
      csi.cert-manager.io/certificate-file: cert.pem
      csi.cert-manager.io/privatekey-file: key.pem
      csi.cert-manager.io/ca-file: ca.pem
      csi.cert-manager.io/fs-group: "65532"
{{- else }}
# Tokens are good once, for a quarter of an hour; there are none any more when all have joined.
- name: join
  secret: {secretName: {{ $root.Values.identities.tokenSecret }}, optional: true, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end -}}

{{- define "amita.claim" -}}
metadata:
  name: {{ .name }}
spec:
  accessModes: [ReadWriteOnce]
  volumeMode: {{ .mode }}
  {{- with .claim.storageClassName }}
  storageClassName: {{ . }}
  {{- end }}
  resources: {requests: {storage: {{ .claim.size }}}}
{{- end -}}

{{/* How disks come into a container, and where other mounts go on. */}}
{{- define "amita.disks" -}}
{{- if .Values.nodes.devices -}}
volumeMounts:
  - {name: dev, mountPath: /dev}
{{- else -}}
volumeDevices:
  {{- range $number, $disk := .Values.nodes.disks }}
  - {name: disk-{{ $number }}, devicePath: /dev/amita/disk-{{ $number }}}
  {{- end }}
volumeMounts:
{{- end -}}
{{- end -}}

{{/* Secrets of a node, by the names of their files. */}}
{{- define "amita.secrets" -}}
{{- with .Values.metadata.passwordSecret }}
- secret: {name: {{ . }}, items: [{key: password, path: metadata-password}]}
{{- end }}
{{- with .Values.nodes.keysSecret }}
- secret: {name: {{ . }}, items: [{key: seal.key, path: seal.key}, {key: volume.keys, path: volume.keys}]}
{{- end }}
{{- with .Values.nodes.apiCertificateSecret }}
- secret: {name: {{ . }}, items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]}
{{- end }}
{{- end -}}
