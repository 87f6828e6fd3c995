"""The page's one style sheet: light and dark by the reader's choice, one column on a phone, no font to load."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d0d7de;--soft:#f3f5f8;--link:#0b5cad;
--ref:#6b7280;--cand:#0b6bcb;--worse:#b42318;--p0:#0b6bcb;--p1:#b45309;--p2:#0f766e;--p3:#9aa4b2}
@media (prefers-color-scheme:dark){:root{--bg:#12161c;--fg:#e6eaf0;--dim:#a3adba;--line:#3a424e;--soft:#1b212a;
--link:#79b8ff;--ref:#a9b3c1;--cand:#5aa9ff;--worse:#ff8a7a;--p0:#5aa9ff;--p1:#f0a35b;--p2:#4fd1c5;--p3:#5b6675}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:0 1rem 3rem;background:var(--bg);color:var(--fg);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:1.2rem 0 .3rem}
h2{font-size:1.25rem;margin:2rem 0 .6rem;padding-bottom:.2rem;border-bottom:1px solid var(--line)}
h3{font-size:1.05rem;margin:1.2rem 0 .5rem}
h4{font-size:1rem;margin:0;display:inline}
small,.note{color:var(--dim);font-size:.85rem}
p.note{margin:.3rem 0}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-99rem}
.skip:focus{left:1rem;top:.5rem;background:var(--bg);padding:.5rem}
code{font:.82rem ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.cards{display:flex;flex-wrap:wrap;gap:.6rem;padding:0;list-style:none}
.card{border:1px solid var(--line);border-radius:.5rem;padding:.4rem .8rem;background:var(--soft)}
.card b{font-size:1.4rem}
.badge{display:inline-block;border-radius:.3rem;padding:0 .4rem;margin-right:.3rem;color:#fff;font-size:.8rem;
font-weight:600;white-space:nowrap}
.pass{background:#1a6b35}.fail{background:#b42318}.inconclusive{background:#7d5200}.error{background:#6b21a8}
.unknown{background:#57606a}
.plain{margin:.2rem 0;padding-left:1.1rem}
.advised td:nth-child(3){min-width:11rem}.advised td:nth-child(4){min-width:18rem}
.advised ul.note{margin:.2rem 0;padding-left:1.1rem}
.troubles li{margin:.4rem 0}
.problem{border-left:4px solid var(--worse);background:var(--soft);padding:.4rem .8rem}
.scroll{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;font-size:.88rem;min-width:100%}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{border-bottom:1px solid var(--line);padding:.3rem .6rem .3rem 0;text-align:left;vertical-align:top;
overflow-wrap:normal}
td{max-width:34rem;overflow-wrap:break-word}
.gates td:nth-child(5){white-space:nowrap}.gates td:nth-child(6){min-width:11rem}.gates td:nth-child(7){min-width:16rem}
tbody th{font-weight:600}
.matrix th,.matrix td{padding:.15rem .4rem .15rem 0;white-space:nowrap}.matrix thead th{vertical-align:bottom}
.matrix .badge{margin-right:0;font-weight:400}
.pairs tbody th{font-weight:400;color:var(--dim);white-space:nowrap}
.case{border:1px solid var(--line);border-radius:.5rem;padding:.5rem .8rem;margin:.6rem 0;content-visibility:auto;
contain-intrinsic-size:auto 60px}
summary{cursor:pointer;padding:.2rem 0}
summary small{margin-right:.6rem}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,20rem),1fr));gap:1rem;margin:.8rem 0}
figure{margin:0;padding:.6rem;border:1px solid var(--line);border-radius:.5rem;min-width:0}
figcaption{font-weight:600;font-size:.9rem}
.plot{display:block;width:100%;height:auto;max-width:32rem}
.plot text{font-size:10px;fill:var(--dim);text-anchor:middle}.plot .end{text-anchor:end}.plot .start{text-anchor:start}
.grid{stroke:var(--line);stroke-width:.6}
.even{stroke:var(--fg);stroke-width:1.2;stroke-dasharray:5 3}
.limit{stroke:var(--worse);stroke-width:1.4;stroke-dasharray:1.5 2.5}
.whisker{stroke-width:1.6}
.curve{fill:none;stroke-width:1.5}
circle.reference,rect.reference{fill:var(--ref)}circle.candidate,rect.candidate{fill:var(--cand)}
circle.worse{fill:var(--worse)}circle.whole,circle.look{fill:var(--fg)}
path.reference,polyline.reference{stroke:var(--ref)}path.candidate,polyline.candidate{stroke:var(--cand)}
path.worse{stroke:var(--worse)}path.whole,path.look{stroke:var(--fg)}
.soft{fill-opacity:.45}
.part0{fill:var(--p0)}.part1{fill:var(--p1)}.part2{fill:var(--p2)}.part3{fill:var(--p3)}
.diff td{font:.85rem ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap}
del,ins{text-decoration-thickness:2px;border-radius:.2rem;padding:0 .1rem}
del{background:#b4231833}ins{background:#1a7f3733}
dt{font-weight:600}dd{margin:0 0 .4rem}
@media (max-width:40rem){.advised thead{position:absolute;left:-99rem}.advised tr,.advised th,.advised td{display:block}
.advised tbody th,.advised td{min-width:0!important;border-bottom:0;padding:.1rem 0}
.advised tr{border-bottom:1px solid var(--line);padding:.4rem 0}}
@media print{.case{content-visibility:visible}}
"""
