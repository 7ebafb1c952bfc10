/* The probe for a snippet image without the control program: the same document, by node. */
#ifndef DOCKER_PROBE_SCRIPT_H
#define DOCKER_PROBE_SCRIPT_H

#define DOCKER_PROBE_SCRIPT                                                                        \
    "const fs=require('fs'),os=require('os'),net=require('net');\n"                                \
    "const read=p=>{try{return fs.readFileSync(p,'latin1')}catch{return null}};\n"                 \
    "const tryDir=d=>{const f=(d=='/'?'':d)+'/.plimsoll-probe';try{const h=fs.openSync(f,'wx');\n" \
    "try{fs.writeSync(h,'x');return true}finally{fs.closeSync(h);fs.unlinkSync(f)}}catch{return "  \
    "false}};\n"                                                                                   \
    "const mounts=read('/proc/mounts'),points=[...new Set((mounts||'').split('\\n').filter(l=>l)"  \
    ".map(l=>l.split(' ')[1].replace(/\\\\(\\d{3})/g,(m,o)=>String.fromCharCode(parseInt(o,8)))"   \
    "))];\n"                                                                                       \
    "const takes=p=>{try{const s=fs.statSync(p);if(s.isDirectory())return tryDir(p);\n"            \
    "if(s.isFile()){fs.closeSync(fs.openSync(p,'a'));return true}}catch{}return false};\n"         \
    "const status=read('/proc/self/status')||'',ids=n=>{const m=status.match(new "                 \
    "RegExp('^'+n+':(.*)$','m'));return m?m[1].trim().split(/\\s+/).filter(x=>x):null};\n"         \
    "const dev=read('/proc/net/dev'),pids=read('/sys/fs/cgroup/pids.max')||"                       \
    "read('/sys/fs/cgroup/pids/pids.max');\n"                                                      \
    "const doc={rootWritable:tryDir('/'),mounts,writable:points.filter(takes),"                    \
    "pidsMax:pids&&pids.trim().slice(0,32),uid:ids('Uid'),gid:ids('Gid'),groups:ids('Groups'),\n"  \
    "interfaces:dev&&dev.split('\\n').filter(l=>l.includes(':')).map(l=>l.split(':')[0].trim()),"  \
    "kernel:{release:os.release(),version:os.version(),proc:(read('/proc/version')||'')"           \
    ".split('\\n')[0]},socket:{connected:false,reply:''}};\n"                                      \
    "const done=()=>{console.log(JSON.stringify(doc));process.exit(0)};\n"                         \
    "setTimeout(done,3000);const s=net.connect('/run/host-api.sock',()=>{"                         \
    "doc.socket.connected=true;s.write('ping\\n')});\n"                                            \
    "s.on('data',d=>{doc.socket.reply=String(d).slice(0,64);done()});s.on('error',done);\n"

#endif
