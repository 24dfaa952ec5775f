// What becomes of disks, nodes and pools.
import type { disks as english } from "../en/disks";

export const disks: Readonly<Record<keyof typeof english, string>> = {
  "disk.class": "类别",
  "disk.class.title": "{node} 的 {path} 的类别",
  "disk.class.about": "存储池可要求类别：位于此处的组会随之迁移。",
  "disk.class.none": "自定名称：nvme、ssd、hdd；留空表示无。",
  "disk.replace": "更换",
  "disk.replace.title": "更换 {node} 的 {path}",
  "disk.replace.about": "新存储按存储池规则接替它；其余迁往其他存储。旧存储可能已失效。",
  "disk.replace.done": "新存储接管 {groups} 个组；{others} 个迁往其他存储。",
  "disk.by": "接替的存储",
  "disk.forget": "移除",
  "disk.forget.title": "移除 {node} 的 {path}",
  "disk.forget.about": "将从记录中移除，集群不再使用其数据。仍有组需要它时会被拒绝。存储 {id}。",
  "node.remove": "移除",
  "node.remove.title": "移除节点 {name}",
  "node.remove.about":
    "用于不再恢复的节点：它及其 {stores} 个存储将从记录中永久移除。节点在线或仍有组需要其存储时会被拒绝。",
  "pool.rule": "设置规则",
  "pool.rule.title": "{name} 的规则",
  "pool.rule.about": "组会重新放置，按需迁移。副本越少，可承受的故障越少。",
  "pool.rule.copies": "每个块的副本数。",
  "pool.rule.force": "即使现有存储无法满足也执行",
  "pool.delete": "删除",
  "pool.delete.title": "删除存储池 {name}",
  "pool.delete.about": "将彻底删除。仍有卷、可恢复的已删除卷或相关策略时会被拒绝。其存储保留。",
};
